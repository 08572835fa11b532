// Records the latest instructions of one rank in a ring buffer.
//
// While a rank waits, the record has the reason: the RECV of a message, asynchronous instructions,
// or a group call with its missing members. Observer functions run on the rank's thread. Const
// functions may run on any thread, unless noted.
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

#include "plan/flight_record.h"
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

  // One line per instruction, oldest first: "step 3  #17  1RECV_B3  done  0.12 ms  16.0 KiB".
  std::string text() const;
  // Leaves run, host, reason and failure of the record empty.
  FlightRecord record() const;
  // Returns the computing instruction, or nullopt during a wait and between steps.
  std::optional<RunningAction> running() const;
  // Returns the latest instructions with their compute time in seconds.
  std::vector<std::pair<Action, double>> computed() const;
  // For example "rank 0, step 4, instruction 7 '0B1', waits 3.2 s for 0RECV_B1 from rank 1", or "".
  std::string now() const;

  // Seconds of the last instruction (including waits) and of the last wait, for other observers.
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
    std::string call;                           // the group call that waits
    std::function<std::vector<int>()> missing;  // members that have not joined the call
    std::vector<int> were_missing;              // missing members when the call failed
  };
  struct Row {
    const Program* program = nullptr;  // used only on the rank's thread
    const Action* actions = nullptr;   // to tell programs apart
    std::vector<Action> instructions, counterparts;
    std::vector<int> peers;  // rank of each instruction's peer, or -1
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

  double last_seconds_ = 0, last_wait_ = 0;  // used only on the rank's thread
  mutable std::mutex mutex_;                 // protects all members below
  std::vector<Entry> entries_;
  std::size_t count_ = 0;
  std::int64_t pass_ = 0, step_ = 0;
  bool in_pass_ = false;
  std::shared_ptr<const Row> row_;
  std::vector<Action> posted_;  // asynchronous instructions not awaited yet
};

}  // namespace sluice
