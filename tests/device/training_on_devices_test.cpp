#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <string>
#include <thread>

#include "checkpoint/snapshot.h"
#include "comm/loopback_transports.h"
#include "device/ready.h"
#include "device/simulated_device_test_case.h"
#include "sluice/parts/transport.h"
#include "support/temp_directory.h"
#include "train/pipeline_support.h"
#include "train/trainer_support.h"

namespace sluice::test::training_on_devices_test {
namespace {

using sim::Call;

class TrainingOnDevicesTest : public sim::SimulatedDeviceTest {};

// If there are more ranks than devices, some share a device.
std::vector<at::Device> devices_for(int ranks) {
  std::vector<at::Device> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.emplace_back(at::kCUDA, static_cast<at::DeviceIndex>(rank % sim::kNumDevices));
  }
  return devices;
}

template <typename Make>
auto on_devices(Make make) {
  return [make](int ranks, TransportOptions options) {
    options.devices = devices_for(ranks);
    return make(ranks, options);
  };
}

TrainingResult on_host(TrainingResult result) {
  for (auto& [name, weight] : result.weights) weight = weight.cpu();
  return result;
}

TrainingResult trained(TrainingRun run) {
  run.make_endpoints = on_devices(make_local_transports);
  return on_host(run_training(run));
}

void expect_near(const TrainingResult& a, const TrainingResult& b, double tolerance) {
  ASSERT_EQ(a.reports.size(), b.reports.size());
  for (std::size_t i = 0; i < a.reports.size(); ++i) {
    EXPECT_NEAR(a.reports[i].loss, b.reports[i].loss, tolerance * std::abs(b.reports[i].loss));
    EXPECT_NEAR(a.reports[i].grad_norm, b.reports[i].grad_norm,
                tolerance * std::abs(b.reports[i].grad_norm));
  }
}

TEST_F(TrainingOnDevicesTest, ItIsThatOfTheCpuUpToRounding) {
  const TrainingRun run = plain_run("1F1B", 2);
  const TrainingResult host = run_training(run), device = trained(run);
  expect_near(device, host, 1e-4);
  EXPECT_LT(device.reports.back().loss, device.reports.front().loss);
}

TEST_F(TrainingOnDevicesTest, EveryScheduleHasTheSameBitsAsOneRank) {
  for (const bool tied : {false, true}) {
    const TrainingResult alone = trained(plain_run("GPipe", 1, tied));
    for (const int ranks : {2, 4})
      EXPECT_TRUE(same_bits(alone, trained(plain_run("1F1B", ranks, tied))));
    for (const char* schedule : {"Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble"})
      EXPECT_TRUE(same_bits(alone, trained(plain_run(schedule, 2, tied))));
  }
}

// The shape functions say float32. Under autocast a layer writes bfloat16 on CUDA in cases where it
// does not on the CPU.
Model without_shapes() {
  Model model = plain_mlp();
  for (LayerSpec& layer : model.layers) layer.shapes = nullptr;
  return model;
}

TEST_F(TrainingOnDevicesTest, AutocastIsAlikeInEveryLayout) {
  const auto mixed = [](const char* schedule, int ranks) {
    TrainingRun run = plain_run(schedule, ranks);
    run.options.autocast = at::kBFloat16;
    run.model = without_shapes;
    return trained(run);
  };
  const TrainingResult alone = mixed("GPipe", 1);
  EXPECT_FALSE(same_bits(alone, trained(plain_run("GPipe", 1)))) << "autocast does nothing";
  EXPECT_TRUE(same_bits(alone, mixed("1F1B", 2)));
  EXPECT_TRUE(same_bits(alone, mixed("ZBVZeroBubble", 2)));
}

// Recomputed layers must use the random numbers, dtypes and buffers of the forward.
TEST_F(TrainingOnDevicesTest, RecomputedLayersGiveTheSameResults) {
  for (const bool mixed : {false, true}) {
    const auto run_of = [&](bool twice, const char* schedule, int ranks) {
      TrainingRun run = plain_run(schedule, ranks);
      if (mixed) run.options.autocast = at::kBFloat16;
      run.model = [twice] {
        Model model = without_shapes();
        for (LayerSpec& layer : model.layers) layer.recompute = twice;
        return model;
      };
      return trained(run);
    };
    const TrainingResult once = run_of(false, "1F1B", 1);
    EXPECT_TRUE(same_bits(once, run_of(true, "1F1B", 1)));
    EXPECT_TRUE(same_bits(once, run_of(true, "1F1B", 4)));
    EXPECT_TRUE(same_bits(once, run_of(true, "ZBVZeroBubble", 2)));
  }
}

TEST_F(TrainingOnDevicesTest, WhatIsFrozenLeavesTheBackwards) {
  const auto run_of = [](const char* schedule, int ranks) {
    TrainingRun run = plain_run(schedule, ranks);
    run.model = [] {
      Model model = plain_mlp();
      for (std::size_t i = 0; i < 3; ++i) {
        model.layers[i].make = [make = model.layers[i].make] {
          auto module = make();
          for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
          return module;
        };
      }
      return model;
    };
    return trained(run);
  };
  const TrainingResult alone = run_of("GPipe", 1);
  EXPECT_TRUE(same_bits(alone, run_of("1F1B", 4)));
  EXPECT_TRUE(same_bits(alone, run_of("ZBVZeroBubble", 2)));
}

TrainingRun replicated_run(int ranks, int degree, bool zero1, bool zero3) {
  const DataParallel replicas{.degree = degree, .shards = 2, .zero1 = zero1, .zero3 = zero3};
  TrainingRun run = plain_run("1F1B", ranks);
  run.options.data_parallel = replicas;
  run.program = replicated_program("1F1B", ranks, kMicrobatches / degree, replicas);
  run.partition = even_partition(mlp(false), run.program.stage_map);
  return run;
}

TEST_F(TrainingOnDevicesTest, ReplicasAndTheirShardsAreOne) {
  const auto replicated = [](int ranks, int degree, bool zero1, bool zero3) {
    return trained(replicated_run(ranks, degree, zero1, zero3));
  };
  const TrainingResult one = replicated(1, 1, false, false);
  EXPECT_TRUE(same_bits(one, replicated(2, 2, false, false)));
  EXPECT_TRUE(same_bits(one, replicated(1, 2, true, false)));
  EXPECT_TRUE(same_bits(one, replicated(2, 2, false, true)));
}

TEST_F(TrainingOnDevicesTest, ConnectionsBetweenProcessesCarryThemToTheReceiversDevice) {
  const TrainingRun run = plain_run("1F1B", 2);
  TrainingRun wired = run;
  wired.make_endpoints = on_devices([](int ranks, const TransportOptions& options) {
    return make_loopback_transports(ranks, options);
  });
  EXPECT_TRUE(same_bits(trained(run), on_host(run_training(wired))));
}

// Host waits per step and device, computed from two runs of different length.
std::vector<std::int64_t> host_waits_a_step(TrainingRun run) {
  std::vector<sim::Counts> counted;
  for (const std::size_t num_steps : {2, 4}) {
    run.steps = random_steps(static_cast<int>(num_steps));
    sim::reset_counts();
    trained(run);
    counted.push_back(sim::counts());
  }
  std::vector<std::int64_t> waits;
  for (std::size_t device = 0; device < sim::kNumDevices; ++device) {
    const std::int64_t more = counted[1].host_waits[device] - counted[0].host_waits[device];
    EXPECT_EQ(more % 2, 0);
    waits.push_back(more / 2);
  }
  EXPECT_EQ(counted[0].synchronized, counted[1].synchronized);
  return waits;
}

// The host waits for the losses and the gradient norm. With replicas it also reads from each
// gradient message which parts it contains.
TEST_F(TrainingOnDevicesTest, TheHostWaitsForADeviceTwiceAStepAtMost) {
  using Waits = std::vector<std::int64_t>;
  EXPECT_EQ(host_waits_a_step(plain_run("GPipe", 1)), Waits({2, 0, 0, 0}));
  EXPECT_EQ(host_waits_a_step(plain_run("1F1B", 4)), Waits({1, 1, 1, 2}));
  EXPECT_EQ(host_waits_a_step(plain_run("1F1B", 2, /*tied=*/true)), Waits({1, 2, 0, 0}));
  EXPECT_EQ(host_waits_a_step(plain_run("ZBVZeroBubble", 2)), Waits({2, 1, 0, 0}));
  EXPECT_EQ(host_waits_a_step(replicated_run(2, 2, true, false)), Waits({3, 3, 4, 4}));
  EXPECT_EQ(host_waits_a_step(replicated_run(2, 2, false, true)), Waits({3, 3, 4, 4}));
}

void on_rank(const Transport& end, const std::function<void()>& call) {
  std::thread([&] {
    const c10::DeviceGuard guard(end.device());
    call();
  }).join();
}

TEST_F(TrainingOnDevicesTest, EveryWaitAndRecordOfAHandOverIsNeeded) {
  const auto hand_over = [] {
    const auto ends = make_local_transports(2, {.devices = devices_for(2)});
    on_rank(*ends[0], [&] {
      ends[0]->send(1, ChannelKind::kActivation,
                    {{.stage = 1, .microbatch = 0, .step = 1},
                     {at::randn({64}, at::kCUDA).mul(2).set_requires_grad(true)}});
    });
    on_rank(*ends[1], [&] {
      const Message message = ends[1]->wait(
          ends[1]->post_receive(0, ChannelKind::kActivation, {1, 0, 1}, std::nullopt));
      EXPECT_EQ(message.tensors[0].device(), ends[1]->device());
      EXPECT_TRUE(message.tensors[0].requires_grad());
      message.tensors[0].sum();
    });
  };
  EXPECT_TRUE(sim::unnoticed(Call::kWait, hand_over).empty());
  EXPECT_TRUE(sim::unnoticed(Call::kRecord, hand_over).empty());
}

using sim::unnoticed;

// The copy waits for the computation and keeps its memory alive.
TEST_F(TrainingOnDevicesTest, EveryWaitAndRecordOfACopyToTheHostIsNeeded) {
  at::Tensor last;
  Ready arrived;
  const auto copy = [&] {
    std::thread([&] {
      arrived = {};
      last = to_host(at::ones({64}, at::Device(at::kCUDA, 1)).mul(2), arrived);
    }).join();
  };
  EXPECT_TRUE(unnoticed(Call::kWait, copy).empty());
  EXPECT_TRUE(unnoticed(Call::kRecord, copy).empty());
  arrived.wait_here();
  EXPECT_TRUE(last.eq(2).all().item<bool>());
  copy();
  sim::reset_counts();
  sim::forget(Call::kSynchronize, 0);
  arrived.wait_here();
  EXPECT_FALSE(last.eq(2).any().item<bool>());
}

// A pending copy holds a reference, because a sole owner may write to the tensor.
TEST_F(TrainingOnDevicesTest, ATensorIsKeptAsLongAsACopyReadsIt) {
  const at::Device own(at::kCUDA, 0), other(at::kCUDA, 1);
  const c10::DeviceGuard guard(own);
  std::thread([&] {
    const at::Tensor tensor = at::ones({64}, own);
    Ready arrived;
    const at::Tensor copy = to_host(tensor, arrived);
    EXPECT_EQ(tensor.use_count(), 2u);
    std::vector<at::Tensor> taken = {tensor};
    take_over(taken, ready_now(taken), other);
    EXPECT_EQ(tensor.use_count(), 3u);
    const at::Tensor next = at::ones({64}, own);
    for (int i = 0; i < 4; ++i) to_host(next, arrived);
    EXPECT_EQ(tensor.use_count(), 1u);
  }).join();
}

// Weight updates wait for the copies of a checkpoint.
TEST_F(TrainingOnDevicesTest, ACheckpointHoldsWhatWasThereWhenItWasTaken) {
  Snapshot snapshot;
  at::Tensor weight = at::ones({64}, at::Device(at::kCUDA, 1));
  const auto taken = [&] {
    RankState state;
    state.parameters = {{"weight", weight}};
    const RankState kept = snapshot.take(state);
    return kept.parameters.front().second.eq(1).all().item<bool>();
  };
  EXPECT_TRUE(taken());
  sim::reset_counts();
  sim::forget(Call::kSynchronize, 0);
  EXPECT_FALSE(taken());
}

// A member's own piece comes back on its own stream, which needs no wait. So one wait and one
// record of each member may be skipped.
TEST_F(TrainingOnDevicesTest, EveryWaitAndRecordOfACollectiveIsNeeded) {
  const auto gather = [] {
    // Run the ranks in turn, so that calls have the same indices in every run.
    const auto ends = make_local_transports(2, {.devices = devices_for(2)});
    std::vector<Work<std::vector<at::Tensor>>> works;
    for (const auto& end : ends) {
      const c10::DeviceGuard guard(end->device());
      works.push_back(end->world().all_gather(at::ones({64}, at::kCUDA).mul(2)));
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
      on_rank(*ends[rank], [&] {
        const std::vector<at::Tensor> gathered = works[rank].wait();
        for (const at::Tensor& tensor : gathered) EXPECT_EQ(tensor.device(), ends[rank]->device());
        gathered[0].add(gathered[1]);
      });
    }
  };
  EXPECT_EQ(unnoticed(Call::kWait, gather), (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(unnoticed(Call::kRecord, gather), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(number_of(Call::kWait, sim::counts()), 4);
  EXPECT_EQ(number_of(Call::kRecord, sim::counts()), 4);
}

// A message between processes arrives on the receiver's own stream. So the receiver's call, the
// second, may be skipped.
TEST_F(TrainingOnDevicesTest, EveryWaitAndRecordOfAConnectionIsNeeded) {
  const auto hand_over = [] {
    const auto ends = make_loopback_transports(2, {.devices = devices_for(2)});
    run_ranks(ends, 1, nullptr, [](Transport& transport) {
      if (transport.rank() == 0) {
        transport.send(
            1, ChannelKind::kActivation,
            {{.stage = 1, .microbatch = 0, .step = 1}, {at::ones({64}, at::kCUDA).mul(2)}});
        return;
      }
      const Message message = transport.wait(
          transport.post_receive(0, ChannelKind::kActivation, {1, 0, 1}, std::nullopt));
      EXPECT_EQ(message.tensors[0].device(), transport.device());
      message.tensors[0].sum();
    });
  };
  EXPECT_EQ(unnoticed(Call::kWait, hand_over), std::vector<std::int64_t>{1});
  EXPECT_EQ(unnoticed(Call::kRecord, hand_over), std::vector<std::int64_t>{1});
}

// ---- public interface ----

struct OfRun {
  std::vector<double> losses;
  std::vector<at::Device> devices;
};

Model six_layers() {
  torch::nn::Sequential net;
  for (int i = 0; i < 5; ++i) net->push_back(torch::nn::Linear(kWidth, kWidth));
  net->push_back(torch::nn::Linear(kWidth, 4));
  const at::NoGradGuard no_grad;
  for (const auto& item : net->named_parameters()) {
    at::Tensor value = item.value();
    keyed_normal_(value, 3, item.key(), 0.0, 0.3);
  }
  return model_of(net);
}

OfRun run_on(DeviceKind device, int ranks, const std::string& checkpoint = "", bool load = false) {
  OfRun result;
  result.devices.assign(static_cast<std::size_t>(ranks), at::Device(at::kCPU));
  run(six_layers(), layout("1F1B", ranks),
      [&](Pipeline& pipeline) {
        torch::optim::AdamW optimizer(pipeline.parameters(), torch::optim::AdamWOptions(1e-2));
        result.devices[static_cast<std::size_t>(pipeline.rank())] =
            pipeline.parameters().front().device();
        if (load) pipeline.load(checkpoint, {.optimizers = {&optimizer}});
        for (int step = 1; step <= 2; ++step) {
          const at::Tensor x = inputs_of(step);
          const double loss = pipeline.train_step({{"x", x}, {"y", targets_of(x)}}).loss;
          pipeline.clip_grad_norm(0.5);
          optimizer.step();
          optimizer.zero_grad();
          if (pipeline.rank() == 0) result.losses.push_back(loss);
        }
        if (!checkpoint.empty() && !load) pipeline.save(checkpoint, {.optimizers = {&optimizer}});
      },
      {.device = device});
  return result;
}

TEST_F(TrainingOnDevicesTest, RunPutsEveryRankOnTheDeviceOfItsNumber) {
  const OfRun device = run_on(DeviceKind::kCuda, 3);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(device.devices[static_cast<std::size_t>(rank)].index(), rank);
  EXPECT_EQ(run_on(DeviceKind::kAuto, 3).devices, device.devices);
  const OfRun host = run_on(DeviceKind::kCpu, 3);
  EXPECT_TRUE(host.devices.front().is_cpu());
  for (std::size_t i = 0; i < host.losses.size(); ++i)
    EXPECT_NEAR(host.losses[i], device.losses[i], 1e-4);
}

TEST_F(TrainingOnDevicesTest, MoreRanksThanDevicesAreRefusedOrStayOnTheCpu) {
  EXPECT_TRUE(run_on(DeviceKind::kAuto, 5).devices.front().is_cpu());
  try {
    run_on(DeviceKind::kCuda, 5);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "4 devices for 5 ranks on this machine; training.device = \"cuda\"; start at most "
                 "one rank per device, or set it to \"cpu\"");
  }
  setenv("SLUICE_SHARE_DEVICE", "1", 1);
  const OfRun shared = run_on(DeviceKind::kCuda, 5);
  unsetenv("SLUICE_SHARE_DEVICE");
  EXPECT_EQ(shared.devices[4].index(), 0);
  EXPECT_EQ(shared.losses, run_on(DeviceKind::kCuda, 2).losses);
}

TEST_F(TrainingOnDevicesTest, ACheckpointGoesOnOnAnotherNumberOfDevicesAndOnTheCpu) {
  const TempDirectory folder;
  const std::string path = folder / "saved";
  run_on(DeviceKind::kCuda, 3, path);
  const OfRun two = run_on(DeviceKind::kCuda, 2, path, true);
  EXPECT_EQ(two.losses, run_on(DeviceKind::kCuda, 4, path, true).losses);
  const OfRun host = run_on(DeviceKind::kCpu, 2, path, true);
  for (std::size_t i = 0; i < host.losses.size(); ++i)
    EXPECT_NEAR(host.losses[i], two.losses[i], 1e-4);
}

}  // namespace
}  // namespace sluice::test::training_on_devices_test
