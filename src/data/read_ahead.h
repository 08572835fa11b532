// Prefetches the batches of the next steps on a background thread for all ranks of a process.
//   1. take() returns the rows of TokenData::step_share().
//   2. At most kStepsAhead steps that some rank has not taken are in memory.
//   3. Reading stops at the first error. Every rank's take() throws it at that step.
// Only take() is thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

inline constexpr std::size_t kStepsAhead = 2;

struct StepsToRead {
  std::int64_t first = 1, last = 0;
  std::int64_t batch_size = 0;  // rows per step, summed over all replicas
  StepsDone done;
  std::map<int, BatchRange> rows;  // keyed by rank
  MicrobatchCount count = {};      // computes parts of StepShare::total_counted
};

class ReadAhead {
 public:
  // `data` must outlive this object. Throws Error(kMemory) if no thread can start.
  ReadAhead(const TokenData& data, StepsToRead steps);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Waits for the step's batch. Throws the errors of step_share(). Precondition: every rank takes
  // each step once, in order.
  StepShare take(std::int64_t step, int rank);

 private:
  struct Batch {
    std::vector<std::shared_ptr<const StepShare>> shares;
    std::exception_ptr error;
    std::size_t takers_left = 0;
  };
  void read_all();
  Batch read(std::int64_t step) const;

  const TokenData& data_;
  const StepsToRead steps_;
  std::vector<BatchRange> ranges_;       // distinct ranges of all ranks
  std::map<int, std::size_t> range_of_;  // index into ranges_, keyed by rank
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Batch> ready_;
  bool ends_ = false;
  std::thread reader_;
};

}  // namespace sluice::data
