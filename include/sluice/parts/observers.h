// Observes a rank at work: callbacks per instruction, step times, traces and memory.
//
// Calls for an instruction come between its begin() and end(). If the instruction or an observer
// throws, failed() is the last call. Calls about messages come once for each half of an overlapped
// pair, and calls about posts (program.h) once for all posts of an instruction. Observers are
// called in list order, on the rank's thread.
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

  // Called before begin_step(). The program may be destroyed after the step.
  virtual void begin_program(const Program& /*program*/, int /*rank*/) {}
  virtual void begin_step(std::int64_t /*step*/) {}
  virtual void end_step() {}  // not after a failure

  virtual void begin(int /*index*/, const Action& /*action*/) {}
  virtual void end(int /*index*/, const Action& /*action*/) {}
  virtual void failed(int /*index*/, const Action& /*action*/) noexcept {}

  // The rank waits for a message, or for earlier posts. arrived() has no tensors for posts.
  virtual void waiting(const Action& /*action*/) {}
  virtual void arrived(const Action& /*action*/, const std::vector<at::Tensor>& /*tensors*/) {}
  // The rank works on a PARTIAL_NORM before it would wait.
  virtual void begin_idle_work(const Action& /*action*/) {}
  virtual void end_idle_work(const Action& /*action*/) {}
  // The instruction calls a collective: "1F3 layers.7.mlp.down_proj (5) over tp: all_reduce of
  // float32[2, 16, 64]".
  virtual void calling(const Action& /*action*/, const std::string& /*call*/) {}
  // The rank waits in the collective `call`. Until members_came() or failed(), any thread may call
  // `missing` to list the missing members.
  virtual void waiting_for_members(const Action& /*action*/, const std::string& /*call*/,
                                   const std::function<std::vector<int>()>& /*missing*/) {}
  virtual void members_came(const Action& /*action*/) {}
  virtual void sending(const Action& /*action*/, const std::vector<at::Tensor>& /*tensors*/) {}

  // Called after F, B or I. `outputs` are the chunk's outputs with their graph, so do not keep
  // them. After F, `handed_on` holds the detached outputs or the loss. After B or I, it holds the
  // input gradients (some undefined). You may replace these tensors, but must not write to one that
  // the backward reads.
  virtual void produced(const Action& /*action*/, const Values& /*outputs*/,
                        std::vector<at::Tensor>& /*handed_on*/) {}
};

// Times of one step on one rank, in seconds of the rank's thread, which does not wait for a GPU.
// `total` sums compute, waits, reduction, optimizer and other().
struct StepTimes {
  double total = 0;
  double compute = 0;       // F, B, I, W and pairs, without waiting
  double wait_receive = 0;  // RECV, and waiting for messages in compute
  double wait_send = 0;     // SEND, including waits in the transport
  // REDUCE_*, UNSHARD, RESHARD, PARTIAL_NORM, waits for their results, and collectives in compute.
  double reduction = 0;
  double optimizer = 0;  // UPDATE and OPTIMIZER_STEP, without waiting
  // The thread's CPU time in compute and transfers.
  double compute_cpu = 0;

  double other() const {
    return total - compute - wait_receive - wait_send - reduction - optimizer;
  }
};

// Rows of a trace in Trace Event Format (Google, 2016) for chrome://tracing and ui.perfetto.dev.
// `pid` is the rank, `tid` the row.
enum class TraceRow : std::uint8_t {
  kCompute,  // F, B, I, W without the wait before them; pairs including the wait
  kTransfers,
  kWaits,
  kStepEnd,
};

struct TraceEvent {
  std::string name;  // for a wait, "wait of " and the action
  TraceRow row = TraceRow::kCompute;
  int rank = 0;
  std::int64_t step = 0;
  double start = 0, duration = 0;  // microseconds, steady clock
};

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
  bool is_pair_ = false;
  Clock::time_point action_start_, wait_start_, work_start_;
  std::vector<TraceEvent> events_;
};

// Returns JSON with the events of all ranks. Time starts at the first event.
std::string to_chrome_trace(std::span<const TraceEvent> events);

// Counts the tensor bytes of each rank that is a thread of this process, in LibTorch's CPU and CUDA
// allocators. A storage belongs to the rank that allocated it until transfer(), whichever thread
// frees it. All members are thread-safe.
class MemoryLedger {
 public:
  explicit MemoryLedger(int num_ranks);
  ~MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // Counts this thread's allocations for `rank`. The ledger must outlive the scope.
  class Scope {
   public:
    Scope(MemoryLedger& ledger, int rank);

   private:
    c10::DebugInfoGuard guard_;
  };

  // Assigns the storage at this address (at::Tensor::storage().data()) to `rank`. Ignores unknown
  // addresses, such as mapped files.
  void transfer(const void* storage, int rank);

  std::int64_t live_bytes(int rank) const;
  std::int64_t peak_bytes(int rank) const;
  void reset_peak(int rank);

 private:
  class Listener;
  struct Table;
  std::unique_ptr<Table> table_;
};

}  // namespace sluice
