// Nodes connected by Gloo, all in this process.
#pragma once

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "comm/gloo_wire.h"
#include "comm/node.h"

namespace sluice::test {

// Endpoints in the order of the ranks. adjust(options, node): of each node before it is made.
template <typename Adjust>
std::vector<std::unique_ptr<Transport>> gloo_nodes(int num_ranks, int num_nodes,
                                                   const TransportOptions& options,
                                                   const Adjust& adjust) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::vector<std::unique_ptr<Transport>>> of_node(static_cast<std::size_t>(num_nodes));
  std::vector<std::exception_ptr> errors(of_node.size());
  std::vector<std::thread> threads;
  for (int n = 0; n < num_nodes; ++n) {
    threads.emplace_back([&, n] {
      try {
        NodeOptions node;
        node.num_ranks = num_ranks;
        node.num_nodes = num_nodes;
        node.node = n;
        node.deadline = [deadline = options.deadline] { return deadline; };
        GlooWireOptions wire;
        wire.num_ranks = num_ranks;
        wire.num_nodes = num_nodes;
        wire.node = n;
        // Of the set-up: a conformance test may give waits less than that takes.
        wire.deadline = std::chrono::seconds(20);
        wire.name = "test";
        wire.secret = "what only these nodes know";
        adjust(node, wire);
        auto shared = std::make_shared<Node>(std::move(node));
        shared->connect(make_gloo_wire(store, std::move(wire)));
        of_node[n] = make_endpoints(std::move(shared));
      } catch (...) {
        errors[n] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::unique_ptr<Transport>> endpoints;
  for (int n = 0; n < num_nodes; ++n) {
    if (errors[n]) std::rethrow_exception(errors[n]);
    for (auto& endpoint : of_node[n]) endpoints.push_back(std::move(endpoint));
  }
  return endpoints;
}

inline std::vector<std::unique_ptr<Transport>> gloo_nodes(int num_ranks, int num_nodes,
                                                          const TransportOptions& options = {}) {
  return gloo_nodes(num_ranks, num_nodes, options, [](NodeOptions&, GlooWireOptions&) {});
}

// A rank each.
inline std::vector<std::unique_ptr<Transport>> single_gloo_nodes(int size,
                                                                 const TransportOptions& options) {
  return gloo_nodes(size, size, options);
}

// Two nodes; one where the ranks cannot be halved.
inline std::vector<std::unique_ptr<Transport>> mixed_gloo_nodes(int size,
                                                                const TransportOptions& options) {
  return size % 2 == 0 ? gloo_nodes(size, 2, options) : gloo_nodes(size, size, options);
}

}  // namespace sluice::test
