// One process of a distributed run, started by a test:
//   rank_process PORT SECRET PROCESS NUM_PROCESSES RANKS_EACH WHAT
// WHAT "exchange" sends messages and sums, then ends. "wait" waits for a message that never comes.
// "linger" ends late. Prints the error that ended the process.
#include <ATen/ATen.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "comm/process_transports.h"
#include "job/store_client.h"
#include "sluice/parts/transport.h"

namespace sluice {
namespace {

void exchange(Transport& transport) {
  const int rank = transport.rank(), size = transport.size();
  const Group world = transport.world(), half = world.split(rank % 2);
  for (int i = 0; i < 50; ++i) {
    for (int other = 0; other < size; ++other) {
      if (other == rank) continue;
      for (const ChannelKind kind : {ChannelKind::kActivation, ChannelKind::kGradient})
        transport.send(other, kind, {{other, i, 1}, {at::full({1 + 500 * i}, 1000.0 * rank + i)}});
    }
    auto sum = world.all_reduce(at::full({20'000}, 1.0 + rank));
    auto inner = half.all_gather(std::to_string(rank + i));
    for (int other = 0; other < size; ++other) {
      if (other == rank) continue;
      for (const ChannelKind kind : {ChannelKind::kGradient, ChannelKind::kActivation}) {
        const Message got =
            transport.wait(transport.post_receive(other, kind, {rank, i, 1}, std::nullopt));
        if (!at::equal(got.tensors.at(0), at::full({1 + 500 * i}, 1000.0 * other + i)))
          throw Error(ErrorKind::kInternal, {.what = "messages overtook"});
      }
    }
    if (sum.wait()[19'999].item<double>() != size * (size + 1) / 2.0)
      throw Error(ErrorKind::kInternal, {.what = "a wrong sum"});
    inner.wait();
  }
}

// Like run_ranks, which tests built with a sanitizer do not link.
template <typename Body>
void on_threads(const std::vector<std::unique_ptr<Transport>>& endpoints, const Body& body) {
  std::vector<std::thread> threads;
  for (const auto& endpoint : endpoints) {
    threads.emplace_back([&body, &endpoint] {
      try {
        body(*endpoint);
      } catch (const Error& error) {
        endpoint->abort({endpoint->rank(), error.kind(), error.what()});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (const auto failure = endpoints.front()->failure())
    throw Error(failure->kind, {.what = failure->message});
}

int run(int argc, char** argv) {
  if (argc != 7) return 2;
  const std::string what = argv[6];
  ProcessTransportOptions options;
  options.process = std::atoi(argv[3]);
  options.num_processes = std::atoi(argv[4]);
  options.num_ranks = options.num_processes * std::atoi(argv[5]);
  options.deadline = [] { return std::chrono::seconds(30); };
  try {
    const auto store = std::make_shared<StoreClient>(StoreAddress{"127.0.0.1", std::atoi(argv[1])},
                                                     argv[2], std::chrono::seconds(20));
    const auto endpoints = make_process_transports(store, options);
    std::cout << "connected" << std::endl;
    on_threads(endpoints, [&](Transport& transport) {
      if (what != "wait") exchange(transport);
      if (what == "linger" && options.process == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
      if (what == "wait") {
        transport.wait(transport.post_receive(transport.rank() == 0 ? 1 : 0,
                                              ChannelKind::kActivation, {0, 0, 1}, std::nullopt));
      }
    });
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    return error.exit_code();
  }
  std::cout << "done" << std::endl;
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::run(argc, argv); }
