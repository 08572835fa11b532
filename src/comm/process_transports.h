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
  std::vector<at::Device> devices = {};  // of local ranks; empty for the CPU
  // Sends device tensors over NCCL, with one rank per process. Null for Gloo.
  const nccl::Table* nccl = nullptr;
  std::chrono::milliseconds meet{100'000};
  // Called on any thread when a wait begins.
  std::function<std::chrono::milliseconds()> deadline = [] { return std::chrono::seconds(100); };
  // "train/0": unique in the job, equal in all processes.
  std::string name = "ranks";
  // Interface to listen on, "" for loopback.
  std::string host;
  // Optional. Called before any wait ends.
  std::function<void(const Failure&)> on_failure;
  // Optional. Returns why a connection broke, if known. May block for seconds.
  std::function<std::optional<Failure>()> cause;
};

// Collective over the processes, which prove that they have the store's secret. Returns endpoints
// in rank order. Throws Error(kPeer).
std::vector<std::unique_ptr<Transport>> make_process_transports(
    const std::shared_ptr<StoreClient>& store, const ProcessTransportOptions& options);

}  // namespace sluice
