#include "data/read_ahead.h"

#include <csignal>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "sluice/error.h"

namespace sluice::data {
namespace {

class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

ReadAhead::ReadAhead(const TokenData& data, StepsToRead steps)
    : data_(data), steps_(std::move(steps)) {
  for (const auto& [rank, rows] : steps_.rows) {
    const auto same = [&rows = rows](const BatchRange& range) {
      return range.first == rows.first && range.count == rows.count;
    };
    const auto found = std::find_if(ranges_.begin(), ranges_.end(), same);
    range_of_[rank] = static_cast<std::size_t>(found - ranges_.begin());
    if (found == ranges_.end()) ranges_.push_back(rows);
  }
  const NoSignals blocked;  // so that existing threads handle signals
  try {
    reader_ = std::thread([this] { read_all(); });
  } catch (const std::system_error& error) {
    throw Error(
        ErrorKind::kMemory,
        {.what = std::string("cannot start the thread that reads the data: ") + error.what(),
         .remedy = "raise `ulimit -u`, or use fewer ranks"});
  }
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  reader_.join();
}

ReadAhead::Batch ReadAhead::read(std::int64_t step) const {
  Batch batch;
  batch.takers_left = range_of_.size();
  try {
    for (StepShare& share :
         data_.step_shares(step, steps_.batch_size, ranges_, steps_.done, steps_.count))
      batch.shares.push_back(std::make_shared<const StepShare>(std::move(share)));
  } catch (...) {
    batch.error = std::current_exception();
  }
  return batch;
}

void ReadAhead::read_all() {
  for (std::int64_t step = steps_.first; step <= steps_.last; ++step) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || ready_.size() < kStepsAhead; });
      if (ends_) return;
    }
    Batch batch = read(step);
    const bool failed = batch.error != nullptr;
    {
      const std::lock_guard lock(mutex_);
      ready_.emplace(step, std::move(batch));
    }
    changed_.notify_all();
    if (failed) return;
  }
}

StepShare ReadAhead::take(std::int64_t step, int rank) {
  std::shared_ptr<const StepShare> share;
  std::exception_ptr error;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.count(step) > 0; });
    const auto found = ready_.find(step);
    Batch& batch = found->second;
    if (batch.error) {
      error = batch.error;
    } else {
      share = batch.shares[range_of_.at(rank)];
    }
    if (--batch.takers_left == 0) ready_.erase(found);
  }
  changed_.notify_all();
  if (error) std::rethrow_exception(error);
  return *share;
}

}  // namespace sluice::data
