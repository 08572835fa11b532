// Gloo endpoints of several "processes" that all live in this process.
#pragma once

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "comm/gloo_link.h"
#include "comm/process_ranks.h"

namespace sluice::test {

struct AsItIs {
  std::unique_ptr<Link> operator()(std::unique_ptr<Link> link, int /*process*/) const {
    return link;
  }
};

// Returns the endpoints in rank order. adjust(options, process) edits the options of a process.
// wrap(link, process) returns the link to use.
template <typename Adjust, typename Wrap = AsItIs>
std::vector<std::unique_ptr<Transport>> gloo_processes(int num_ranks, int num_processes,
                                                       const TransportOptions& options,
                                                       const Adjust& adjust,
                                                       const Wrap& wrap = {}) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::vector<std::unique_ptr<Transport>>> of_process(
      static_cast<std::size_t>(num_processes));
  std::vector<std::exception_ptr> errors(of_process.size());
  std::vector<std::thread> threads;
  for (int n = 0; n < num_processes; ++n) {
    threads.emplace_back([&, n] {
      try {
        ProcessRanksOptions process;
        process.num_ranks = num_ranks;
        process.num_processes = num_processes;
        process.process = n;
        process.deadline = [deadline = options.deadline] { return deadline; };
        GlooLinkOptions link;
        link.num_ranks = num_ranks;
        link.num_processes = num_processes;
        link.process = n;
        // Set-up gets its own deadline, because conformance tests may set shorter waits than set-up
        // needs.
        link.deadline = std::chrono::seconds(20);
        link.name = "test";
        link.secret = "what only these processes know";
        adjust(process, link);
        auto shared = std::make_shared<ProcessRanks>(std::move(process));
        shared->connect(wrap(make_gloo_link(store, std::move(link)), n));
        of_process[n] = make_endpoints(std::move(shared));
      } catch (...) {
        errors[n] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::unique_ptr<Transport>> endpoints;
  for (int n = 0; n < num_processes; ++n) {
    if (errors[n]) std::rethrow_exception(errors[n]);
    for (auto& endpoint : of_process[n]) endpoints.push_back(std::move(endpoint));
  }
  return endpoints;
}

inline std::vector<std::unique_ptr<Transport>> gloo_processes(
    int num_ranks, int num_processes, const TransportOptions& options = {}) {
  return gloo_processes(num_ranks, num_processes, options,
                        [](ProcessRanksOptions&, GlooLinkOptions&) {});
}

inline std::vector<std::unique_ptr<Transport>> single_gloo_processes(
    int size, const TransportOptions& options) {
  return gloo_processes(size, size, options);
}

// Two processes, or one if the number of ranks is odd.
inline std::vector<std::unique_ptr<Transport>> mixed_gloo_processes(
    int size, const TransportOptions& options) {
  return size % 2 == 0 ? gloo_processes(size, 2, options) : gloo_processes(size, size, options);
}

}  // namespace sluice::test
