// What may be watched of an executor at work: flight recorder, times, memory, traces, fault
// injection.
//
// Owns: the interface. Does not own: the loop, which does the same with and without observers
// (executor.h).
//
// Invariants:
//  1. An instruction is a begin() and an end(); failed() comes as soon as anything of it throws,
//     an observer included (those after that one have not heard of the call). It is the last.
//  2. waiting(), arrived(), produced() and sending() come between them. Of a message, waiting and
//     arrived once for each half of an overlapped pair, with the half as their action, as produced;
//     of posts (program.h), once for all that the instruction waits for, at its beginning, or at
//     the end of the row's last one.
//  3. begin_idle_work() and end_idle_work() come between the begin() and end() of whatever
//     instruction would wait, before its waiting(), once for each piece of the work.
//  4. Observers are told in the order of their list. What one of them throws is the failure of the
//     instruction.
// Thread-safety: called on the rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/values.h"

namespace sluice {

struct Program;

class ExecutorObserver {
 public:
  virtual ~ExecutorObserver() = default;

  // What runs next, before begin_step(); rank: of the run. The program may be gone after the step.
  virtual void begin_program(const Program& /*program*/, int /*rank*/) {}
  virtual void begin_step(std::int64_t /*step*/) {}
  virtual void end_step() {}  // not after a failure

  // index: in the rank's row.
  virtual void begin(int /*index*/, const Action& /*action*/) {}
  virtual void end(int /*index*/, const Action& /*action*/) {}
  virtual void failed(int /*index*/, const Action& /*action*/) noexcept {}

  // A compute action waits for a message of another rank, which then arrives; or an instruction for
  // posts above it in its row, which bring no tensors.
  virtual void waiting(const Action& /*action*/) {}
  virtual void arrived(const Action& /*action*/, const std::vector<at::Tensor>& /*tensors*/) {}
  // The rank does a piece of a PARTIAL_NORM above in its row.
  virtual void begin_idle_work(const Action& /*action*/) {}
  virtual void end_idle_work(const Action& /*action*/) {}
  // A SEND is about to hand these over.
  virtual void sending(const Action& /*action*/, const std::vector<at::Tensor>& /*tensors*/) {}

  // After F, B, I, before anything is handed on. outputs: what the chunk of an F returned, with its
  // graph, to look at and not to keep; empty after B and I. handed_on: outputs without a graph, or
  // the loss alone on the last stage, or the gradients of the inputs, undefined where there is
  // none. These may be replaced; a tensor that the stage saved for its backward must not be written
  // to.
  virtual void produced(const Action& /*action*/, const Values& /*outputs*/,
                        std::vector<at::Tensor>& /*handed_on*/) {}
};

}  // namespace sluice
