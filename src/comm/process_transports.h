// Endpoints of ranks in several processes, which meet in a store.
//
// Does not own: the store and its server, who is told of failures (they are given).
// Thread-safety: as Transport.
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

class StoreClient;  // of the job's store; src/launch

struct ProcessTransportOptions {
  int num_ranks = 1;      // of the run
  int num_processes = 1;  // divides the ranks; process p has ranks p k .. p k + k - 1
  int process = 0;        // this one
  std::vector<at::Device> devices = {};  // of its ranks, in their order; empty: the CPU
  // Tensors of devices go over NCCL, the same in all processes, each of which is a rank with a
  // device of its own; null: over Gloo.
  const nccl::Table* nccl = nullptr;
  // For the others to call this, too.
  std::chrono::milliseconds meet{100'000};
  // The limit of every wait of the ranks; asked whenever one begins, on any thread.
  std::function<std::chrono::milliseconds()> deadline = [] { return std::chrono::seconds(100); };
  // The name of this connection among those of the job, the same in all processes: "train/0".
  std::string name = "ranks";
  // The interface to listen on; "" for loopback.
  std::string host;
  // The first failure here: told before any wait ends. May be empty.
  std::function<void(const Failure&)> on_failure;
  // Asked when a connection breaks: the cause, if somebody knows it, after a second or two. May be
  // empty.
  std::function<std::optional<Failure>()> cause;
};

// Collective over all processes. Every pair of processes proves itself with the store's secret
// before it is used. Endpoints in the order of this process's ranks. Throws Error(kPeer).
std::vector<std::unique_ptr<Transport>> make_process_transports(
    const std::shared_ptr<StoreClient>& store, const ProcessTransportOptions& options);

}  // namespace sluice
