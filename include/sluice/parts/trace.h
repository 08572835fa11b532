// What ran when: the instructions of a rank as events, and the file that chrome://tracing and
// ui.perfetto.dev read.
//
// Owns: TraceEvent, the recorder of one rank, the JSON. Does not own: gathering the events of all
// ranks, the file on disk.
// Format: Trace Event Format, JSON object form (Google, 2016): complete events ("ph": "X") with
// `ts` and `dur` in microseconds, `pid` the rank, `tid` the row.
// Thread-safety: a recorder belongs to its rank's thread; the rest are pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/parts/executor_observer.h"

namespace sluice {

enum class TraceRow : std::uint8_t {
  kCompute,    // F, B, I, W, without what they waited for first; pairs, with it
  kTransfers,  // SEND, RECV: what handing over and reserving took the rank
  kWaits,      // for a message, or for what was posted above
  kStepEnd,    // reductions, UNSHARD, RESHARD, the update
};

struct TraceEvent {
  std::string name;  // the action as in the CSV; of a wait "wait of " and the action
  TraceRow row = TraceRow::kCompute;
  int rank = 0;
  std::int64_t step = 0;
  double start = 0, duration = 0;  // microseconds of this machine's steady clock
};

// Records steps first to last, both included.
class TraceRecorder final : public ExecutorObserver {
 public:
  TraceRecorder(int rank, std::int64_t first_step, std::int64_t last_step)
      : rank_(rank), first_step_(first_step), last_step_(last_step) {}

  const std::vector<TraceEvent>& events() const { return events_; }

  void begin_step(std::int64_t step) override;
  void begin(int index, const Action& action) override;
  void end(int index, const Action& action) override;
  void waiting(const Action& action) override;
  void arrived(const Action& action, const std::vector<at::Tensor>& tensors) override;
  void begin_idle_work(const Action& action) override;
  void end_idle_work(const Action& action) override;

 private:
  using Clock = std::chrono::steady_clock;
  bool is_on() const { return step_ >= first_step_ && step_ <= last_step_; }
  void add(std::string name, TraceRow row, Clock::time_point start);

  int rank_;
  std::int64_t first_step_, last_step_, step_ = 0;
  bool is_pair_ = false;  // the instruction that runs
  Clock::time_point action_start_, wait_start_, work_start_;
  std::vector<TraceEvent> events_;
};

// Of all ranks together. Time begins with the first event; rows have names, processes "rank 2".
std::string to_chrome_trace(std::span<const TraceEvent> events);

}  // namespace sluice
