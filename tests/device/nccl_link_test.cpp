// Transfers between devices, with a recording stand-in for NCCL.
#include "comm/nccl_link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "comm/loopback_transports.h"
#include "device/recording_nccl.h"
#include "device/simulated_device_test_case.h"
#include "engine/rank_threads.h"
#include "sluice/parts/transport.h"
#include "support/expect_error.h"
#include "support/gloo_processes.h"
#include "support/group_conformance.h"
#include "support/transport_conformance.h"
#include "train/trainer_support.h"

namespace sluice::test {

// ---- conformance of transports, with each tensor sent between devices ----

namespace {

at::Device device_of(int rank) {
  return {at::kCUDA, static_cast<at::DeviceIndex>(rank % sim::kNumDevices)};
}

at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  if (!tensor.defined()) return tensor;
  const at::NoGradGuard no_grad;
  const TensorLayout layout(tensor);
  Ready arrived;
  const at::Tensor bytes = layout.flatten(tensor, arrived);
  arrived.wait_here();
  const at::Tensor there = layout.allocate(device);
  if (bytes.numel() > 0) there.narrow(0, 0, bytes.numel()).copy_(bytes);
  return layout.restore(there, at::kCPU);
}

// Moves host tensors to devices for the transfer and back.
class ByDevices final : public Link, public LinkReceiver {
 public:
  ByDevices(std::unique_ptr<Link> link, at::Device device)
      : device_(device), link_(std::move(link)) {}

  void start(LinkReceiver& receiver) override {
    receiver_ = &receiver;
    link_->start(*this);
  }
  void send(int process, Frame frame) override {
    for (at::Tensor& tensor : frame.tensors) tensor = moved(tensor, device_);
    link_->send(process, std::move(frame));
  }
  void abort(const Failure& failure) noexcept override { link_->abort(failure); }

  std::shared_ptr<c10::ThreadLocalDebugInfo> counts_as() const override {
    return receiver_->counts_as();
  }
  void check(int from, const FrameOutline& outline) const override {
    receiver_->check(from, outline);
  }
  at::Device device_for(const FrameHead& /*head*/) const override { return device_; }
  void deliver(int from, Frame frame) override {
    for (at::Tensor& tensor : frame.tensors) tensor = moved(tensor, at::kCPU);
    receiver_->deliver(from, std::move(frame));
  }
  void aborted(const Failure& failure) noexcept override { receiver_->aborted(failure); }
  void wrong(int from, const std::exception_ptr& error) noexcept override {
    receiver_->wrong(from, error);
  }
  void lost(int from, const std::string& how) noexcept override { receiver_->lost(from, how); }

 private:
  at::Device device_;
  LinkReceiver* receiver_ = nullptr;
  std::unique_ptr<Link> link_;
};

std::vector<std::unique_ptr<Transport>> recorded_processes(int size,
                                                           const TransportOptions& options) {
  // Some of five ranks share a device, which real NCCL rejects.
  sim::start_recording({.one_device = size > sim::kNumDevices});
  return gloo_processes(
      size, size, options,
      [&](ProcessRanksOptions& process, GlooLinkOptions& link) {
        link.nccl = &sim::recording_nccl();
        link.device = device_of(process.process);
        link.transfer_deadline = process.deadline;
      },
      [](std::unique_ptr<Link> link, int process) -> std::unique_ptr<Link> {
        return std::make_unique<ByDevices>(std::move(link), device_of(process));
      });
}

// Skipped if LibTorch has real CUDA.
std::vector<TransportFactory> recorded() {
  if (!sim::is_simulated()) return {};
  return {&recorded_processes};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportConformance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GroupConformance);
INSTANTIATE_TEST_SUITE_P(RecordedNccl, TransportConformance, ::testing::ValuesIn(recorded()));
INSTANTIATE_TEST_SUITE_P(RecordedNccl, GroupConformance, ::testing::ValuesIn(recorded()));

}  // namespace

namespace nccl_link_test {
namespace {

using sim::NcclScript;

class NcclLinkTest : public sim::SimulatedDeviceTest {
 protected:
  void SetUp() override {
    sim::SimulatedDeviceTest::SetUp();
    sim::start_recording();
  }
  void TearDown() override {
    for (const std::string& fault : sim::nccl_faults()) ADD_FAILURE() << fault;
    sim::SimulatedDeviceTest::TearDown();
  }
};

std::vector<at::Device> devices_for(int ranks) {
  std::vector<at::Device> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(device_of(rank));
  return devices;
}

std::vector<std::unique_ptr<Transport>> wired(int ranks, TransportOptions options = {}) {
  options.devices = devices_for(ranks);
  return make_loopback_transports(ranks, options, &sim::recording_nccl());
}

Message wait_for(Transport& transport, int source, int microbatch) {
  return transport.wait(transport.post_receive(source, ChannelKind::kActivation,
                                               {transport.rank(), microbatch, 1}, std::nullopt));
}

void send(Transport& transport, int destination, int microbatch, const at::Tensor& tensor) {
  transport.send(destination, ChannelKind::kActivation, {{destination, microbatch, 1}, {tensor}});
}

TEST_F(NcclLinkTest, TensorsOfADeviceGoByNcclAndThoseOfTheHostDoNot) {
  {
    const auto ends = wired(2);
    run_ranks(ends, 1, nullptr, [](Transport& transport) {
      if (transport.rank() == 0) {
        send(transport, 1, 0, at::ones({1000}));
        return send(transport, 1, 1, at::arange(1000, at::TensorOptions(at::kCUDA)));
      }
      EXPECT_TRUE(wait_for(transport, 0, 0).tensors[0].is_cpu());
      const at::Tensor got = wait_for(transport, 0, 1).tensors[0];
      EXPECT_EQ(got.device(), transport.device());
      EXPECT_TRUE(at::equal(got.cpu(), at::arange(1000)));
    });
  }
  const sim::NcclCounts counts = sim::nccl_counts();
  EXPECT_EQ(counts.communicators, 8);  // both ends of two directions and two lanes
  EXPECT_EQ(counts.sends, 1);
  EXPECT_EQ(counts.receives, 1);
  EXPECT_EQ(counts.bytes, 8000);
  EXPECT_EQ(counts.destroyed, 8);
  EXPECT_EQ(counts.aborted, 0);
}

TEST_F(NcclLinkTest, ATensorLiesOnTheOtherDeviceAsItDidOnItsOwn) {
  const auto ends = wired(2);
  run_ranks(ends, 1, nullptr, [](Transport& transport) {
    const at::Tensor square =
        at::arange(3600, at::TensorOptions(transport.device())).view({60, 60});
    const std::vector<at::Tensor> tensors = {
        square,       square.t(),   square.narrow(1, 3, 40), square.view(-1).narrow(0, 1, 400),
        at::Tensor(), at::ones({2})};
    if (transport.rank() == 0) {
      return transport.send(1, ChannelKind::kActivation, {{1, 0, 1}, tensors});
    }
    const Message got = wait_for(transport, 0, 0);
    ASSERT_EQ(got.tensors.size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      ASSERT_EQ(got.tensors[i].defined(), tensors[i].defined());
      if (!tensors[i].defined()) continue;
      EXPECT_EQ(got.tensors[i].device(), tensors[i].device());
      EXPECT_EQ(got.tensors[i].strides(), tensors[i].strides());
      EXPECT_TRUE(at::equal(got.tensors[i].cpu(), tensors[i].cpu())) << i;
    }
  });
}

TEST_F(NcclLinkTest, ASendWaitsForItsReceiveAndHoldsNothingUp) {
  const auto ends = wired(2);
  run_ranks(ends, 1, nullptr, [](Transport& transport) {
    for (int i = 0; i < 8; ++i)
      send(transport, 1 - transport.rank(), i, at::full({64}, i, at::TensorOptions(at::kCUDA)));
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(wait_for(transport, 1 - transport.rank(), i).tensors[0][0].item<double>(), i);
  });
}

// Dropping any wait or record_stream between compute and transfer streams causes a race.
TEST_F(NcclLinkTest, EveryWaitAndRecordOfATransferIsNeeded) {
  const auto hand_over = [] {
    sim::start_recording();
    const auto ends = wired(2);
    run_ranks(ends, 1, nullptr, [](Transport& transport) {
      if (transport.rank() == 0) return send(transport, 1, 0, at::ones({64}, at::kCUDA).mul(2));
      wait_for(transport, 0, 0).tensors[0].sum();
    });
  };
  EXPECT_TRUE(sim::unnoticed(sim::Call::kWait, hand_over).empty());
  EXPECT_TRUE(sim::unnoticed(sim::Call::kRecord, hand_over).empty());
}

// ---- training ----

TrainingResult on_host(TrainingResult result) {
  for (auto& [name, weight] : result.weights) weight = weight.cpu();
  return result;
}

TrainingResult trained(TrainingRun run, bool by_nccl) {
  run.make_endpoints = [by_nccl](int ranks, TransportOptions options) {
    options.devices = devices_for(ranks);
    return by_nccl ? wired(ranks, options) : make_local_transports(ranks, options);
  };
  return on_host(run_training(run));
}

TEST_F(NcclLinkTest, EveryScheduleTrainsOverItWithTheBitsOfThreads) {
  for (const bool tied : {false, true}) {
    for (const auto& [schedule, ranks] : {std::pair{"GPipe", 2},
                                          {"1F1B", 4},
                                          {"Interleaved1F1B", 2},
                                          {"LoopedBFS", 2},
                                          {"InterleavedZeroBubble", 2},
                                          {"ZBVZeroBubble", 2},
                                          {"DualPipeV", 2}}) {
      const TrainingRun run = plain_run(schedule, ranks, tied);
      sim::start_recording();
      EXPECT_TRUE(same_bits(trained(run, false), trained(run, true))) << schedule;
      const sim::NcclCounts counts = sim::nccl_counts();
      EXPECT_GT(counts.sends, 0);
      EXPECT_EQ(counts.sends, counts.receives) << schedule;
      EXPECT_EQ(counts.unmatched, 0);
      for (const std::string& fault : sim::nccl_faults())
        ADD_FAILURE() << schedule << ": " << fault;
    }
  }
}

TEST_F(NcclLinkTest, SumsOfReplicasKeepTheirBits) {
  for (const bool zero3 : {false, true}) {
    const DataParallel replicas{.degree = 2, .shards = 2, .zero1 = !zero3, .zero3 = zero3};
    TrainingRun run = plain_run("1F1B", 2, /*tied=*/false);
    run.options.data_parallel = replicas;
    run.program = replicated_program("1F1B", 2, kMicrobatches / 2, replicas);
    run.partition = even_partition(mlp(false), run.program.stage_map);
    EXPECT_TRUE(same_bits(trained(run, false), trained(run, true)));
  }
}

// The piece arrives on the stream of the link's thread.
TEST_F(NcclLinkTest, APieceThatComesBeforeItsGroupIsWaitedFor) {
  struct Nowhere final : Link {
    void start(LinkReceiver& /*receiver*/) override {}
    void send(int /*process*/, Frame /*frame*/) override {}
    void abort(const Failure& /*failure*/) noexcept override {}
  };
  ProcessRanks process({.num_ranks = 2, .num_processes = 2, .devices = {device_of(0)}});
  process.connect(std::make_unique<Nowhere>());
  {
    const c10::StreamGuard on_stream(side_stream(device_of(0)));
    const at::Tensor piece = at::ones({64}, device_of(0)).mul(3);
    process.deliver(1, {CollectiveHead{"pair", 0, 1, {"sum", {}}, {0, -1}}, {piece}});
  }
  GroupState& pair = process.group("pair", {0, 1});
  const auto sum = pair.enter(0, 0, {"sum", {}}, {});
  EXPECT_EQ(pair.wait(0, *sum).pieces[1].sum().item<double>(), 192);
}

// ---- failures ----

std::vector<std::string> errors_of_a_transfer(const NcclScript& script) {
  sim::start_recording(script);
  std::vector<std::string> errors(2);
  const auto ends = wired(2, {.deadline = std::chrono::seconds(20)});
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const c10::DeviceGuard guard(device_of(rank));
      errors[static_cast<std::size_t>(rank)] = message_of([&] {
        Transport& transport = *ends[static_cast<std::size_t>(rank)];
        if (rank == 0) send(transport, 1, 0, at::ones({64}, at::kCUDA));
        if (rank == 1) wait_for(transport, 0, 0);
        wait_for(transport, 1 - rank, 1);
      });
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return errors;
}

TEST_F(NcclLinkTest, AnErrorOfACallIsNamedOnBothSides) {
  for (const std::string& error : errors_of_a_transfer({.function = "ncclSend"})) {
    EXPECT_EQ(error,
              "NCCL fails in ncclSend: unhandled system error; process 0, messages from process 0 "
              "to process 1; look at process 1, set NCCL_DEBUG=WARN for NCCL's messages, or set "
              "parallelism.transport = \"gloo\"");
  }
  EXPECT_GT(sim::nccl_counts().aborted, 0);
  EXPECT_EQ(sim::nccl_counts().destroyed, 0);
}

TEST_F(NcclLinkTest, APeerLostInMidTransferEndsBothAndAbortsEverything) {
  const auto errors =
      errors_of_a_transfer({.function = "async", .call = 0, .result = nccl::kRemoteError});
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("remote process exited or there was a network error"), std::string::npos)
        << error;
  }
  const sim::NcclCounts counts = sim::nccl_counts();
  EXPECT_EQ(counts.aborted, counts.communicators);
}

TEST_F(NcclLinkTest, ATransferThatDoesNotEndIsNamedAtTheDeadline) {
  sim::start_recording({.function = "lost"});
  auto ends = wired(2, {.deadline = std::chrono::milliseconds(300)});
  {
    const c10::DeviceGuard guard(device_of(0));
    send(*ends[0], 1, 0, at::ones({64}, at::kCUDA));
  }
  // No rank waits here, because its own deadline would come first.
  for (const auto& end : ends) {
    for (int i = 0; i < 1000 && !end->failure(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(end->failure());
    EXPECT_NE(end->failure()->message.find("does not end in time: process "), std::string::npos)
        << end->failure()->message;
  }
  ends.clear();
  EXPECT_EQ(sim::nccl_counts().unmatched, 1);
}

TEST_F(NcclLinkTest, ACommunicatorThatCannotBeMadeIsAnErrorOfTheConnection) {
  sim::start_recording({.function = "ncclCommInitRankConfig", .call = 3});
  const std::string message =
      message_of([] { wired(2, {.deadline = std::chrono::milliseconds(500)}); });
  EXPECT_NE(message.find("ncclCommInitRankConfig"), std::string::npos) << message;
  EXPECT_NE(message.find("process 1"), std::string::npos) << message;
}

TEST_F(NcclLinkTest, TwoRanksOnOneDeviceAreRefusedByNccl) {
  const std::string message = message_of([] {
    make_loopback_transports(2, {.devices = {device_of(0), device_of(0)}}, &sim::recording_nccl());
  });
  EXPECT_NE(message.find("NCCL fails in ncclCommInitRankConfig: invalid usage"), std::string::npos)
      << message;
}

TEST_F(NcclLinkTest, AFailureElsewhereAbortsAllCommunicators) {
  const auto ends = wired(3);
  std::thread waiting(
      [&] { EXPECT_EQ(message_of([&] { wait_for(*ends[2], 0, 0); }), "rank 1 broke"); });
  ends[1]->abort({1, ErrorKind::kInput, "rank 1 broke"});
  waiting.join();
  for (int i = 0; i < 500 && sim::nccl_counts().aborted < 24; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(sim::nccl_counts().aborted, 24);
}

TEST_F(NcclLinkTest, SendingToAProcessThatHasEndedIsNoFailure) {
  auto ends = wired(2);
  ends[1].reset();
  {
    const c10::DeviceGuard guard(device_of(0));
    for (int i = 0; i < 4; ++i) send(*ends[0], 1, i, at::ones({64}, at::kCUDA));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(ends[0]->failure());
  ends.clear();
}

}  // namespace
}  // namespace nccl_link_test
}  // namespace sluice::test
