// Observers: they watch a rank at work.
//
// Invariants of an ExecutorObserver:
//  1. An instruction is a begin() and an end(); failed() comes as soon as any part of it throws, an
//     observer included (observers after that one did not get the call). It is the last call.
//  2. waiting(), arrived(), produced() and sending() come between them. For messages, waiting() and
//     arrived(), like produced(), come once for each half of an overlapped pair, with the half as
//     their action; for posts (program.h), once for all that the instruction waits for, at its
//     start, or at the end of the row's last instruction.
//  3. begin_idle_work() and end_idle_work() come between the begin() and end() of the instruction
//     that would wait, before its waiting(), once for each piece of the work.
//  4. calling() comes between the begin() and end() of an instruction, waiting_for_members() and
//     then members_came() where it waits for the result there.
//  5. Observers are called in the order of their list. An exception of an observer is the failure
//     of the instruction.
// Thread-safety: observers are called on the rank's thread; a MemoryLedger may be called from any
// thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/values.h"

namespace sluice {

struct Program;

class ExecutorObserver {
 public:
  virtual ~ExecutorObserver() = default;

  // The program that runs next, before begin_step(); rank: its number in the run. The program may
  // be gone after the step.
  virtual void begin_program(const Program& /*program*/, int /*rank*/) {}
  virtual void begin_step(std::int64_t /*step*/) {}
  virtual void end_step() {}  // not after a failure

  // index: the instruction's position in the rank's row.
  virtual void begin(int /*index*/, const Action& /*action*/) {}
  virtual void end(int /*index*/, const Action& /*action*/) {}
  virtual void failed(int /*index*/, const Action& /*action*/) noexcept {}

  // A compute action waits for a message of another rank, which then arrives; or an instruction
  // waits for posts above it in its row, which bring no tensors.
  virtual void waiting(const Action& /*action*/) {}
  virtual void arrived(const Action& /*action*/, const std::vector<at::Tensor>& /*tensors*/) {}
  // The rank does a piece of a PARTIAL_NORM above in its row.
  virtual void begin_idle_work(const Action& /*action*/) {}
  virtual void end_idle_work(const Action& /*action*/) {}
  // The instruction makes a call to the other members of a group, as of tensor parallelism within
  // an F; call: "1F3 layers.7.mlp.down_proj (5) over tp: all_reduce of float32[2, 16, 64]".
  virtual void calling(const Action& /*action*/, const std::string& /*call*/) {}
  // Within it the rank waits for members; missing: which, to be asked from any thread until
  // members_came(), or failed() after an error.
  virtual void waiting_for_members(const Action& /*action*/, const std::string& /*call*/,
                                   const std::function<std::vector<int>()>& /*missing*/) {}
  virtual void members_came(const Action& /*action*/) {}
  // A SEND is about to hand these over.
  virtual void sending(const Action& /*action*/, const std::vector<at::Tensor>& /*tensors*/) {}

  // After F, B, I, before anything is handed on. outputs: the values that the chunk of an F
  // returned, with their graph, to be read and not kept; empty after B and I. handed_on: outputs
  // without a graph, or the loss alone on the last stage, or the gradients of the inputs, undefined
  // where there is none. These may be replaced; do not write to a tensor that the stage saved for
  // its backward.
  virtual void produced(const Action& /*action*/, const Values& /*outputs*/,
                        std::vector<at::Tensor>& /*handed_on*/) {}
};

// The times of one rank's step, in seconds of its thread: a GPU is not waited for. Every moment of
// the step is in exactly one of total's shares.
struct StepTimes {
  double total = 0;         // whole row
  double compute = 0;       // in F, B, I, W and pairs, less waiting
  double wait_receive = 0;  // waiting for messages in these; in RECV
  double wait_send = 0;     // in SEND: handing over, and waiting where a transport makes it wait
  double reduction = 0;     // in REDUCE_*, UNSHARD, RESHARD, PARTIAL_NORM, wherever it is done, and
                            // waiting for work they started, or in compute for group members
  double optimizer = 0;     // in UPDATE and OPTIMIZER_STEP, less waiting
  // Not a share of total: the time that the rank's thread ran on a core in F, B, I, W, pairs and
  // transfers. Unlike `compute` it does not grow while the thread has no core.
  double compute_cpu = 0;

  // Time between instructions.
  double other() const {
    return total - compute - wait_receive - wait_send - reduction - optimizer;
  }
};

// A trace: the instructions of a rank as timed events, and the file that chrome://tracing and
// ui.perfetto.dev read. Format: Trace Event Format, JSON object form (Google, 2016): complete
// events ("ph": "X") with `ts` and `dur` in microseconds, `pid` the rank, `tid` the row.
enum class TraceRow : std::uint8_t {
  kCompute,    // F, B, I, W, without the wait before them; pairs, with it
  kTransfers,  // SEND, RECV: the rank's time to hand over and reserve
  kWaits,      // waits for a message, or for posts above
  kStepEnd,    // reductions, UNSHARD, RESHARD, the update
};

struct TraceEvent {
  std::string name;  // the action as in the CSV; for a wait, "wait of " and the action
  TraceRow row = TraceRow::kCompute;
  int rank = 0;
  std::int64_t step = 0;
  double start = 0, duration = 0;  // microseconds of this machine's steady clock
};

// The observer that records steps first_step to last_step, both included.
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
  bool is_pair_ = false;  // true while an overlapped pair runs
  Clock::time_point action_start_, wait_start_, work_start_;
  std::vector<TraceEvent> events_;
};

// The trace file of the events of all ranks. Time starts at the first event; rows have names,
// processes are "rank 2".
std::string to_chrome_trace(std::span<const TraceEvent> events);

// The bytes of tensors that each rank holds, when ranks are threads of one process. It listens to
// LibTorch's allocators (CPU and CUDA), so it counts actual allocations.
//
// A storage belongs to the rank on whose thread it was allocated until transfer() gives it to
// another, whoever frees it. Memory that kernels use inside one operator without a tensor is not
// counted.
class MemoryLedger {
 public:
  explicit MemoryLedger(int num_ranks);
  ~MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // While a Scope lives, allocations on this thread belong to `rank`, and frees on this thread are
  // counted. The ledger must outlive it.
  class Scope {
   public:
    Scope(MemoryLedger& ledger, int rank);

   private:
    c10::DebugInfoGuard guard_;
  };

  // The storage at this address (at::Tensor::storage().data()) is now held by `rank`. Unknown
  // addresses, such as mapped files, are ignored.
  void transfer(const void* storage, int rank);

  std::int64_t live_bytes(int rank) const;
  // The largest live_bytes(rank) since the last reset_peak(rank), or ever.
  std::int64_t peak_bytes(int rank) const;
  void reset_peak(int rank);

 private:
  class Listener;
  struct Table;
  std::unique_ptr<Table> table_;
};

}  // namespace sluice
