// Measures the cost of a message: sluice's transports, bare ProcessGroupGloo, and memcpy.
//
//   bench/transport_bench                             64 B, 1 MB, 8 MB and 64 MB, all transports
//   bench/transport_bench --benchmark_filter=Gloo/    Gloo between ranks of one process
//
// A message travels there and back, and half of that time counts. The other end is a thread of this
// program, or (Processes) a second process of this program. s_median and s_min are seconds one way.
// The column Time is the mean of round trips, including noise. Threads copy nothing, so their bytes
// per second mean little. A message of a transport arrives in new memory, like an activation. Bare
// Gloo and memcpy are measured with reused and with new memory.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "comm/c10d_store.h"
#include "comm/loopback_transports.h"
#include "comm/process_transports.h"
#include "job/sha256.h"
#include "job/store_server.h"
#include "sluice/parts/transport.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kDeadline{30'000};

at::Tensor bytes_tensor(std::int64_t bytes) { return at::zeros({bytes}, at::kByte); }

class End {
 public:
  virtual ~End() = default;
  virtual at::Tensor ping(const at::Tensor& bytes) = 0;
  virtual void pong(std::int64_t bytes) = 0;
  virtual void send(const at::Tensor& bytes) = 0;
  virtual at::Tensor receive(std::int64_t bytes) = 0;
};

class TransportEnd final : public End {
 public:
  explicit TransportEnd(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)), other_(1 - transport_->rank()) {}

  at::Tensor ping(const at::Tensor& bytes) override {
    const auto ticket = post();
    send(bytes);
    return transport_->wait(ticket).tensors.front();
  }
  void pong(std::int64_t bytes) override { send(receive(bytes)); }
  void send(const at::Tensor& bytes) override {
    transport_->send(other_, ChannelKind::kActivation, {{other_, sent_++, 1}, {bytes}});
  }
  at::Tensor receive(std::int64_t /*bytes*/) override {
    return transport_->wait(post()).tensors.front();
  }

 private:
  Transport::Ticket post() {
    return transport_->post_receive(other_, ChannelKind::kActivation,
                                    {transport_->rank(), received_++, 1}, std::nullopt);
  }
  const std::unique_ptr<Transport> transport_;
  const int other_;
  int sent_ = 0, received_ = 0;
};

// Bare LibTorch group. The receiver must already have the size of a message.
class RawGlooEnd final : public End {
 public:
  RawGlooEnd(const c10::intrusive_ptr<c10d::Store>& store, int rank, bool new_memory)
      : other_(1 - rank), new_memory_(new_memory) {
    const auto options = c10d::ProcessGroupGloo::Options::create(kDeadline);
    options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
    options->threads = 0;
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, 2, options);
  }

  at::Tensor ping(const at::Tensor& bytes) override {
    std::vector<at::Tensor> there{bytes}, back{memory(bytes.numel())};
    const auto receiving = group_->recv(back, other_, kTag);
    group_->send(there, other_, kTag)->wait();
    receiving->wait();
    return back.front();
  }
  void pong(std::int64_t bytes) override { send(receive(bytes)); }
  void send(const at::Tensor& bytes) override {
    std::vector<at::Tensor> tensors{bytes};
    group_->send(tensors, other_, kTag)->wait();
  }
  at::Tensor receive(std::int64_t bytes) override {
    std::vector<at::Tensor> tensors{memory(bytes)};
    group_->recv(tensors, other_, kTag)->wait();
    return tensors.front();
  }

 private:
  static constexpr int kTag = 0;

  at::Tensor memory(std::int64_t bytes) {
    if (new_memory_) return at::empty({bytes}, at::kByte);
    if (!kept_.defined() || kept_.numel() != bytes) kept_ = bytes_tensor(bytes);
    return kept_;
  }
  const int other_;
  const bool new_memory_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  at::Tensor kept_;
};

struct Announcement {
  std::int64_t count = 0;  // 0: end
  std::int64_t bytes = 0;
};

void announce(End& end, Announcement what) {
  const at::Tensor bytes = bytes_tensor(sizeof what);
  std::memcpy(bytes.mutable_data_ptr(), &what, sizeof what);
  end.send(bytes);
}

void echo(End& end) {
  for (;;) {
    const at::Tensor bytes = end.receive(sizeof(Announcement));
    Announcement what;
    std::memcpy(&what, bytes.const_data_ptr(), sizeof what);
    if (what.count == 0) return;
    for (std::int64_t i = 0; i < what.count; ++i) end.pong(what.bytes);
  }
}

class Way {
 public:
  virtual ~Way() = default;
  virtual End& end() = 0;
};

class ThreadWay final : public Way {
 public:
  ThreadWay(std::unique_ptr<End> here, std::unique_ptr<End> there)
      : here_(std::move(here)), there_(std::move(there)), thread_([this] { echo(*there_); }) {}
  ~ThreadWay() override {
    announce(*here_, {});
    thread_.join();
  }
  End& end() override { return *here_; }

 private:
  const std::unique_ptr<End> here_, there_;
  std::thread thread_;
};

enum class Kind { kTransport, kRaw, kRawNewMemory };

std::unique_ptr<End> end_of_process(Kind kind, const StoreAddress& address,
                                    const std::string& secret, int process) {
  const auto store = std::make_shared<StoreClient>(address, secret, kDeadline);
  if (kind != Kind::kTransport) {
    return std::make_unique<RawGlooEnd>(make_job_store(store, kDeadline), process,
                                        kind == Kind::kRawNewMemory);
  }
  ProcessTransportOptions options;
  options.num_ranks = options.num_processes = 2;
  options.process = process;
  options.deadline = [] { return kDeadline; };
  return std::make_unique<TransportEnd>(std::move(make_process_transports(store, options).front()));
}

// The other end is this program, started as transport_bench --echo KIND PORT SECRET.
class ProcessWay final : public Way {
 public:
  explicit ProcessWay(Kind kind) {
    std::array<std::string, 5> words = {"transport_bench", "--echo",
                                        std::to_string(static_cast<int>(kind)),
                                        std::to_string(server_.address().port), secret_};
    std::array<char*, 6> arguments{};
    std::transform(words.begin(), words.end(), arguments.begin(),
                   [](std::string& word) { return word.data(); });
    if (posix_spawn(&child_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0)
      throw std::runtime_error("cannot start this program once more");
    end_ = end_of_process(kind, server_.address(), secret_, 0);
  }
  ~ProcessWay() override {
    announce(*end_, {});
    end_.reset();
    waitpid(child_, nullptr, 0);
  }
  End& end() override { return *end_; }

 private:
  const std::string secret_ = random_secret();
  StoreServer server_{{.secret = secret_}};
  pid_t child_ = -1;
  std::unique_ptr<End> end_;
};

int echo_in_this_process(char** words) {
  const auto end = end_of_process(static_cast<Kind>(std::stoi(words[0])),
                                  {"127.0.0.1", std::stoi(words[1])}, words[2], 1);
  echo(*end);
  return 0;
}

std::unique_ptr<Way> way_of(std::vector<std::unique_ptr<Transport>> transports) {
  return std::make_unique<ThreadWay>(std::make_unique<TransportEnd>(std::move(transports[0])),
                                     std::make_unique<TransportEnd>(std::move(transports[1])));
}
std::unique_ptr<Way> threads() { return way_of(make_local_transports(2)); }
std::unique_ptr<Way> gloo_in_one_process() { return way_of(make_loopback_transports(2, {})); }

std::unique_ptr<Way> raw_gloo(bool new_memory) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::array<std::unique_ptr<End>, 2> ends;
  std::thread other([&] { ends[1] = std::make_unique<RawGlooEnd>(store, 1, new_memory); });
  ends[0] = std::make_unique<RawGlooEnd>(store, 0, new_memory);
  other.join();
  return std::make_unique<ThreadWay>(std::move(ends[0]), std::move(ends[1]));
}
std::unique_ptr<Way> raw_gloo_kept() { return raw_gloo(false); }
std::unique_ptr<Way> raw_gloo_new() { return raw_gloo(true); }
std::unique_ptr<Way> processes() { return std::make_unique<ProcessWay>(Kind::kTransport); }
std::unique_ptr<Way> raw_processes() { return std::make_unique<ProcessWay>(Kind::kRaw); }
std::unique_ptr<Way> raw_processes_new() {
  return std::make_unique<ProcessWay>(Kind::kRawNewMemory);
}

// samples: seconds one way.
void report(benchmark::State& state, std::vector<double> samples, std::int64_t bytes) {
  std::sort(samples.begin(), samples.end());
  const double median = samples[samples.size() / 2], best = samples.front();
  state.counters["s_median"] = median;
  state.counters["s_min"] = best;
  state.counters["B/s_median"] = static_cast<double>(bytes) / median;
  state.counters["B/s_best"] = static_cast<double>(bytes) / best;
}

template <typename Act>
double seconds_of(const Act& act) {
  const auto start = Clock::now();
  act();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int kWarmUp = 3;

void BM_Message(benchmark::State& state, std::unique_ptr<Way> (*make)()) {
  at::set_num_threads(1);
  const std::int64_t bytes = state.range(0);
  const std::unique_ptr<Way> way = make();
  announce(way->end(), {static_cast<std::int64_t>(state.max_iterations) + kWarmUp, bytes});
  const at::Tensor message = bytes_tensor(bytes);
  for (int i = 0; i < kWarmUp; ++i) way->end().ping(message);
  std::vector<double> samples;
  for (auto _ : state) {
    const double seconds = seconds_of([&] { way->end().ping(message); });
    state.SetIterationTime(seconds);
    samples.push_back(seconds / 2);
  }
  report(state, std::move(samples), bytes);
}

void BM_Memcpy(benchmark::State& state, bool new_memory) {
  const std::int64_t bytes = state.range(0);
  const at::Tensor from = bytes_tensor(bytes), kept = bytes_tensor(bytes);
  std::vector<double> samples;
  for (auto _ : state) {
    const double seconds = seconds_of([&] {
      const at::Tensor to = new_memory ? at::empty({bytes}, at::kByte) : kept;
      std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), static_cast<std::size_t>(bytes));
      benchmark::ClobberMemory();
    });
    state.SetIterationTime(seconds);
    samples.push_back(seconds);
  }
  report(state, std::move(samples), bytes);
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& measure) {
  for (const auto& [bytes, times] :
       {std::pair<std::int64_t, int>(64, 2000), {1 << 20, 200}, {8 << 20, 50}, {64 << 20, 15}}) {
    benchmark::RegisterBenchmark(name.c_str(), measure)
        ->Arg(bytes)
        ->Iterations(times)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

void add_way(const std::string& name, std::unique_ptr<Way> (*make)()) {
  add(name, [make](benchmark::State& state) { BM_Message(state, make); });
}

void add_all() {
  add("Memcpy", [](benchmark::State& state) { BM_Memcpy(state, false); });
  add("MemcpyNewMemory", [](benchmark::State& state) { BM_Memcpy(state, true); });
  add_way("Threads", &threads);
  add_way("Gloo", &gloo_in_one_process);
  add_way("RawGloo", &raw_gloo_kept);
  add_way("RawGlooNewMemory", &raw_gloo_new);
  add_way("GlooProcesses", &processes);
  add_way("RawGlooProcesses", &raw_processes);
  add_way("RawGlooProcessesNewMemory", &raw_processes_new);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    if (argc == 5 && std::string(argv[1]) == "--echo")
      return sluice::echo_in_this_process(argv + 2);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    sluice::add_all();
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
