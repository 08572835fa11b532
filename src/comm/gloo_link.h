// A link over LibTorch's ProcessGroupGloo. Messages and collectives have separate process groups,
// so that a small message does not wait behind a large collective.
//
// A frame is a header of up to 8 KiB with the outline (head and layouts), and the tensors' bytes if
// they fit. Otherwise outline and bytes are separate messages, sent before the header. No receive
// is posted by then, so Gloo does not move the bytes on the sender's thread.
//
// A Gloo message longer than its receive kills the process. Tags therefore encode sizes in units of
// 64 bytes, and receivers allocate that size.
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
  std::string name;
  std::string host;              // to listen on: address or interface, "" for loopback
  bool listens_as_host = false;  // listens at the host name's address instead of `host`
  std::string secret;
  // Sends tensors of `device` over NCCL, with one rank per process. Null: over Gloo.
  const nccl::Table* nccl = nullptr;
  at::Device device = at::kCPU;
  std::function<std::chrono::milliseconds()> transfer_deadline = [] {
    return std::chrono::seconds(100);
  };
};

// Collective over the processes. Throws Error(kPeer) if processes are missing or have another
// secret.
std::unique_ptr<Link> make_gloo_link(const c10::intrusive_ptr<c10d::Store>& store,
                                     GlooLinkOptions options);

}  // namespace sluice
