// Makes endpoints for the ranks of several processes, which meet in the job's store.
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
  int num_ranks = 1;      // of the run
  int num_processes = 1;  // with k ranks each, process p has ranks p k .. p k + k - 1
  int process = 0;
  std::vector<at::Device> devices = {};  // of the local ranks; empty for the CPU
  // Sends device tensors over NCCL. Requires one rank with its own device per process, and the same
  // choice in all. Null for Gloo.
  const nccl::Table* nccl = nullptr;
  // How long to wait for the other processes.
  std::chrono::milliseconds meet{100'000};
  // Limit of a rank's wait, called on any thread when a wait begins.
  std::function<std::chrono::milliseconds()> deadline = [] { return std::chrono::seconds(100); };
  // Unique among the job's connections, equal in all processes: "train/0".
  std::string name = "ranks";
  // Interface to listen on, "" for loopback.
  std::string host;
  // Optional. Called with the first failure before any wait ends.
  std::function<void(const Failure&)> on_failure;
  // Optional. Returns the cause of a broken connection, if known. May take a second or two.
  std::function<std::optional<Failure>()> cause;
};

// All processes must call this together. Each pair proves that it has the store's secret. Returns
// endpoints in rank order. Throws Error(kPeer).
std::vector<std::unique_ptr<Transport>> make_process_transports(
    const std::shared_ptr<StoreClient>& store, const ProcessTransportOptions& options);

}  // namespace sluice
