#include "comm/loopback_transports.h"

#include <exception>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

#include "comm/gloo_link.h"
#include "comm/process_ranks.h"
#include "job/sha256.h"

namespace sluice {
namespace {

std::vector<std::unique_ptr<Transport>> connect_rank(
    const c10::intrusive_ptr<c10d::HashStore>& store, int rank, int num_ranks,
    const std::string& secret, const TransportOptions& options, const nccl::Table* nccl) {
  ProcessRanksOptions process;
  process.num_ranks = process.num_processes = num_ranks;
  process.process = rank;
  if (!options.devices.empty()) process.devices = {options.devices[static_cast<std::size_t>(rank)]};
  process.deadline = [deadline = options.deadline] { return deadline; };
  GlooLinkOptions link;
  link.num_ranks = link.num_processes = num_ranks;
  link.process = rank;
  link.deadline = options.deadline;
  link.name = "loopback";
  link.secret = secret;
  link.nccl = nccl;
  if (nccl) link.device = options.devices[static_cast<std::size_t>(rank)];
  link.transfer_deadline = [deadline = options.deadline] { return deadline; };
  auto made = std::make_shared<ProcessRanks>(std::move(process));
  if (num_ranks > 1) made->connect(make_gloo_link(store, std::move(link)));
  return make_endpoints(std::move(made));
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
        endpoints[rank] =
            std::move(connect_rank(store, rank, num_ranks, secret, options, nccl).front());
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
