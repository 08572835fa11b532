#include "engine/rank_threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "base/format.h"
#include "device/device.h"
#include "engine/rank_errors.h"
#include "sluice/parts/observers.h"

namespace sluice {
namespace {

Failure describe_current_exception(int rank) {
  const Error error = caught_error("rank " + std::to_string(rank));
  return {rank, error.kind(), error.what()};
}

}  // namespace

int resolve_threads_per_rank(int threads_per_rank, int ranks_on_machine) {
  if (threads_per_rank > 0) return threads_per_rank;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / std::max(1, ranks_on_machine));
}

void run_ranks(const std::vector<std::unique_ptr<Transport>>& endpoints, int threads_per_rank,
               MemoryLedger* ledger, const std::function<void(Transport&)>& fn) {
  if (threads_per_rank < 1) {
    throw Error(ErrorKind::kUsage,
                {.what = "a rank cannot have " + std::to_string(threads_per_rank) + " threads",
                 .where = "run_ranks",
                 .remedy = "give at least 1, or the result of resolve_threads_per_rank()"});
  }
  auto body = [&](Transport& transport) {
    try {
      // A thread's first get_num_threads() resets its number to the process-wide one.
      at::set_num_threads(threads_per_rank);
      at::get_num_threads();
      const at::Device device = transport.device();
      const DeviceScope on_device(device.is_cpu() ? std::nullopt : std::optional(device));
      std::optional<MemoryLedger::Scope> scope;
      if (ledger) scope.emplace(*ledger, transport.rank());
      fn(transport);
    } catch (...) {
      transport.abort(describe_current_exception(transport.rank()));
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(endpoints.size());
  for (const auto& endpoint : endpoints) {
    try {
      threads.emplace_back(body, std::ref(*endpoint));
    } catch (const std::system_error& error) {
      endpoint->abort(
          {endpoint->rank(), ErrorKind::kMemory,
           formatted(
               "cannot start the thread of rank {}: {}; raise `ulimit -u`, or use fewer ranks",
               endpoint->rank(), error.what())});
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();

  for (const auto& endpoint : endpoints) {
    if (const std::optional<Failure> failure = endpoint->failure())
      throw Error(failure->kind, {.what = failure->message});
  }
}

}  // namespace sluice
