#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nccl/nccl_table.h"
#include "sluice/parts/transport.h"

namespace sluice {

class StoreClient;

struct ProcessTransportOptions {
  int num_ranks = 1;
  int num_processes = 1;
  int process = 0;
  std::vector<at::Device> devices = {};  // one per local rank; empty for the CPU
  // Sends device tensors over NCCL, with one rank per process. Null: over Gloo.
  const nccl::Table* nccl = nullptr;
  std::chrono::milliseconds meet{100'000};
  // Time limit of a wait. Called on any thread when the wait begins.
  std::function<std::chrono::milliseconds()> deadline = [] { return std::chrono::seconds(100); };
  // For example "train/0". Unique in the job, equal in all processes.
  std::string name = "ranks";
  // Interface to listen on, "" for loopback.
  std::string host;
  // Optional. Called before a failure ends any wait.
  std::function<void(const Failure&)> on_failure;
  // Optional. Returns why a connection broke, if known. May block for seconds.
  std::function<std::optional<Failure>()> cause;
};

// Collective over the processes, which prove that they know the store's secret. Returns endpoints
// in rank order. Throws Error(kPeer).
std::vector<std::unique_ptr<Transport>> make_process_transports(
    const std::shared_ptr<StoreClient>& store, const ProcessTransportOptions& options);

}  // namespace sluice
