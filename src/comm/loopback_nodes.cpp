#include "comm/loopback_nodes.h"

#include <exception>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

#include "comm/gloo_wire.h"
#include "comm/node.h"
#include "launch/sha256.h"

namespace sluice {
namespace {

std::vector<std::unique_ptr<Transport>> connect_node(
    const c10::intrusive_ptr<c10d::HashStore>& store, int rank, int num_ranks,
    const std::string& secret, const TransportOptions& options) {
  NodeOptions node;
  node.num_ranks = node.num_nodes = num_ranks;
  node.node = rank;
  node.deadline = [deadline = options.deadline] { return deadline; };
  GlooWireOptions wire;
  wire.num_ranks = wire.num_nodes = num_ranks;
  wire.node = rank;
  wire.deadline = options.deadline;
  wire.name = "loopback";
  wire.secret = secret;
  auto made = std::make_shared<Node>(std::move(node));
  if (num_ranks > 1) made->connect(make_gloo_wire(store, std::move(wire)));
  return make_endpoints(std::move(made));
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_loopback_nodes(int num_ranks,
                                                            const TransportOptions& options) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const std::string secret = random_bytes(32);
  std::vector<std::unique_ptr<Transport>> endpoints(static_cast<std::size_t>(num_ranks));
  std::vector<std::exception_ptr> errors(endpoints.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        endpoints[rank] = std::move(connect_node(store, rank, num_ranks, secret, options).front());
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
