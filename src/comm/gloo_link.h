// A link over LibTorch's ProcessGroupGloo, whose ranks are the processes of the run. Messages and
// collectives have a process group each, so that a small message does not wait behind a large one.
//
// A frame is sent as a header of at most 8 KiB: a prefix, the outline, and the tensors' bytes if
// they fit. What does not fit is sent as separate Gloo messages. These are posted before the
// header, because Gloo moves the bytes of a message whose receive is already posted on the sender's
// thread.
//
// A Gloo message longer than its receive kills the process. Tags therefore encode the size in units
// of 64 bytes, and receives are as large as their tag says.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "comm/link.h"
#include "nccl/nccl_table.h"

namespace sluice {

struct GlooLinkOptions {
  int num_processes = 2;
  int process = 0;
  int num_ranks = 2;
  std::chrono::milliseconds deadline{100'000};
  std::string name;    // unique among the connections of the job
  std::string host;    // address or interface, "" for loopback
  std::string secret;  // each pair of processes proves that it has this
  // Sends tensors of `device` over NCCL. Requires one rank per process. Null sends them over Gloo.
  const nccl::Table* nccl = nullptr;
  at::Device device = at::kCPU;
  std::function<std::chrono::milliseconds()> transfer_deadline = [] {
    return std::chrono::seconds(100);
  };
};

// All processes must call this together. Does not keep the store. Throws Error(kPeer) if processes
// are missing, or if a peer does not have the secret.
std::unique_ptr<Link> make_gloo_link(const c10::intrusive_ptr<c10d::Store>& store,
                                     GlooLinkOptions options);

}  // namespace sluice
