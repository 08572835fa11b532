// The link over ProcessGroupGloo, LibTorch's, whose ranks are the processes of the run.
//
// Owns: one process group for each lane (messages of the pipeline; collectives), so that a small
// message is not behind a big one; for each lane and process a thread that receives and one that
// releases what was sent; how frames lie in Gloo's messages.
//
// A frame travels as a header of at most 8 KiB (a fixed prefix, then the outline, then, where it
// fits, the tensors' bytes) and, where it does not fit, the outline and the bytes of each tensor as
// messages of their own. These are handed to Gloo before the header: Gloo moves the bytes of a
// message whose receive is posted already on the thread of the sender. A Gloo message that is
// longer than its receive ends the process, so tags say the size (in units of 64 bytes) and
// receives are as large as their tag says. Thread-safety: as link.h.
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
  int num_ranks = 2;  // for messages
  std::chrono::milliseconds deadline{100'000};
  std::string name;    // of the connection among those of the job
  std::string host;    // address or interface to listen on; "" for loopback
  std::string secret;  // with which each pair of processes proves itself before it is used
  // Tensors of `device` go over NCCL, where a process is a rank; null: over Gloo like the rest.
  const nccl::Table* nccl = nullptr;
  at::Device device = at::kCPU;
  std::function<std::chrono::milliseconds()> transfer_deadline = [] {
    return std::chrono::seconds(100);
  };
};

// Collective over the processes. The store is not used after it returns. Throws Error(kPeer): not
// all processes came, or a connection was taken by somebody who does not know the secret.
std::unique_ptr<Link> make_gloo_link(const c10::intrusive_ptr<c10d::Store>& store,
                                     GlooLinkOptions options);

}  // namespace sluice
