// The batches of steps, read and tokenized on a thread of their own while the steps before run:
// once for all ranks of a process.
//
// Owns: the thread, the batches that are ready.
// Does not own: the content of a batch (data.h), the start of a step.
// Invariants:
//  1. What a rank gets is TokenData::step_share() of its rows, whenever it was read.
//  2. At most kStepsAhead steps are in memory that not all ranks have taken.
//  3. An error is thrown where the step that has it is taken, on every rank; later steps are not
//     read.
// Thread-safety: take() may be called by all ranks at once; the rest belongs to one thread.
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
  std::int64_t batch_size = 0;  // batch size, of all replicas
  StepsDone done;
  std::map<int, BatchRange> rows;  // rows of each rank that takes batches
  MicrobatchCount count = {};      // what StepShare::total_counted is a sum of
};

class ReadAhead {
 public:
  // Starts to read. The data must outlive it. Throws Error(kMemory) when no thread can be started.
  ReadAhead(const TokenData& data, StepsToRead steps);
  // Waits for the batch that is being read.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Waits until the batch is there. Throws what step_share() throws. Precondition: every rank takes
  // each step once, in order.
  StepShare take(std::int64_t step, int rank);

 private:
  struct Batch {
    std::vector<std::shared_ptr<const StepShare>> shares;  // shares of ranges_
    std::exception_ptr error;
    std::size_t takers_left = 0;
  };
  void read_all();
  Batch read(std::int64_t step) const;

  const TokenData& data_;
  const StepsToRead steps_;
  std::vector<BatchRange> ranges_;       // those of the ranks, each once
  std::map<int, std::size_t> range_of_;  // by rank
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Batch> ready_;  // by step
  bool ends_ = false;
  std::thread reader_;
};

}  // namespace sluice::data
