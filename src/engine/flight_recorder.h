// The last actions of one rank: what, when, how many bytes, in which state, and what it waits for.
//
// Owns: a ring of them, and the row that runs. Does not own: the file (report/flight_record.h), who
// writes it and when (command/forensics.h).
//
// Invariants:
//  1. What a rank waits for is known while it waits: of a message its RECV, of what was posted
//     above (program.h) the instructions that posted it, of a call to a group within the
//     instruction the call and the members that have not come.
// Thread-safety: told on one rank's thread; text() and record() may be called from any thread
// meanwhile.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/flight_record.h"
#include "sluice/parts/observers.h"
#include "sluice/program.h"

namespace sluice {

class FlightRecorder final : public ExecutorObserver {
 public:
  explicit FlightRecorder(std::size_t capacity) : entries_(capacity ? capacity : 1) {}

  void begin_program(const Program& program, int rank) override;
  void begin_step(std::int64_t step) override;
  void end_step() override;
  void begin(int index, const Action& action) override;
  void waiting(const Action& action) override;
  void arrived(const Action& action, const std::vector<at::Tensor>& tensors) override;
  void sending(const Action& action, const std::vector<at::Tensor>& tensors) override;
  void waiting_for_members(const Action& action, const std::string& call,
                           const std::function<std::vector<int>()>& missing) override;
  void members_came(const Action& action) override;
  void end(int index, const Action& action) override;
  void failed(int index, const Action& action) noexcept override;

  // One line an action, oldest first: "step 3  #17  1RECV_B3  done  0.12 ms  16.0 KiB".
  std::string text() const;
  // The record as far as it is known here: ranks of the run, row, entries; not run, host, reason
  // and failure.
  FlightRecord record() const;
  // The instruction in which the rank computes; nothing while it waits, and between steps.
  std::optional<RunningAction> running() const;
  // The seconds that each of the last instructions computed, of those that have ended.
  std::vector<std::pair<Action, double>> computed() const;
  // "rank 0, step 4, instruction 7 '0B1', waits 3.2 s for 0RECV_B1 from rank 1": what the rank does
  // now; "" when nothing runs.
  std::string now() const;

  // Seconds that the rank's own thread has just measured: of the last instruction, waiting
  // included, and of the last wait. Read by observers behind this one, which then need no clock of
  // their own.
  double last_seconds() const { return last_seconds_; }
  double last_wait() const { return last_wait_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::int64_t pass = 0, step = 0, bytes = 0;
    int index = 0;
    Action action;
    FlightState state = FlightState::kRunning;
    Clock::time_point start, stop, wait_start;
    Clock::duration waited{};
    std::vector<Action> waits_for;
    std::string call;                           // to a group, which it waits in
    std::function<std::vector<int>()> missing;  // while it waits there
    std::vector<int> were_missing;              // when the wait failed
  };
  // Facts of the program that runs; made once for each program.
  struct Row {
    const Program* program = nullptr;  // whose it is: only to be asked on the rank's thread
    const Action* actions = nullptr;   // of all ranks' rows, the first: tells programs apart
    std::vector<Action> instructions, counterparts;
    std::vector<int> peers;  // ranks of the run
    std::string fingerprint;
    bool forward_only = false;
    int num_microbatches = 0, num_ranks = 1, rank = 0;
    std::array<int, 5> coordinates = {};
    std::vector<int> stages;
  };

  static std::shared_ptr<const Row> make_row(const Program& program, int rank);
  bool is_row_of(const Program& program, int rank) const;
  std::vector<Action> awaited(const Action& user);
  void stop(FlightState state);
  void wait();
  void go_on();
  Entry& current() { return entries_[(count_ - 1) % entries_.size()]; }
  FlightEntry entry_of(const Entry& entry, Clock::time_point now, double wall) const;

  double last_seconds_ = 0, last_wait_ = 0;  // of the rank's thread alone
  mutable std::mutex mutex_;                 // of all below
  std::vector<Entry> entries_;
  std::size_t count_ = 0;
  std::int64_t pass_ = 0, step_ = 0;
  bool in_pass_ = false;
  std::shared_ptr<const Row> row_;
  std::vector<Action> posted_;  // above, and not waited for yet
};

}  // namespace sluice
