#include "comm/loopback_transports.h"

#include <exception>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

#include "comm/single_rank_transport.h"
#include "job/sha256.h"

namespace sluice {
namespace {

std::unique_ptr<Transport> connect_rank(const c10::intrusive_ptr<c10d::HashStore>& store, int rank,
                                        int num_ranks, const std::string& secret,
                                        const TransportOptions& options, const nccl::Table* nccl) {
  GlooLinkOptions link;
  link.deadline = options.deadline;
  link.name = "loopback";
  link.secret = secret;
  link.nccl = nccl;
  if (nccl) link.device = options.devices[static_cast<std::size_t>(rank)];
  return make_single_rank_transport(store, rank, num_ranks, options, std::move(link));
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_loopback_transports(int num_ranks,
                                                                 const TransportOptions& options,
                                                                 const nccl::Table* nccl) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const std::string secret = random_bytes(32);
  std::vector<std::unique_ptr<Transport>> endpoints(static_cast<std::size_t>(num_ranks));
  std::vector<std::exception_ptr> errors(endpoints.size());
  std::vector<std::thread> threads;
  threads.reserve(endpoints.size());
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        endpoints[rank] = connect_rank(store, rank, num_ranks, secret, options, nccl);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return endpoints;
}

}  // namespace sluice
