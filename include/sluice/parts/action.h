// One instruction of one rank, in schedules, programs and files.
//
// The text form follows torch.distributed.pipelining (torch 2.13, schedules.py `_Action`):
//   {stage}F{mb} {stage}B{mb} {stage}I{mb} {stage}W{mb}    compute
//   ({stage}F{mb};{stage}B{mb})OVERLAP_F_B                  a pair that may overlap
//   {stage}SEND_F{mb} {stage}RECV_F{mb} {stage}SEND_B{mb} {stage}RECV_B{mb}
//   {stage}UNSHARD {stage}RESHARD {stage}REDUCE_GRAD        data parallelism
// sluice adds:
//   {stage}REDUCE_GRAD{mb} {stage}PARTIAL_NORM {stage}UPDATE
//   {group}REDUCE_TIED REDUCE_LOSS GATHER_OUTPUTS REDUCE_NORM OPTIMIZER_STEP
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/parts/layout.h"

namespace sluice {

enum class ActionKind : std::uint8_t {
  kIdle,
  kForward,         // F
  kBackward,        // B: gradients of the input and the weights
  kBackwardInput,   // I: gradient of the input only
  kBackwardWeight,  // W: gradients of the weights only, after I
  kOverlap,         // F of one stage with B or I of another
  kSendForward,     // sends the stage's output to its consumer (flow.h)
  kRecvForward,
  kSendBackward,  // sends the gradient of the stage's input to its producer
  kRecvBackward,
  kUnshard,  // gathers the stage's sharded parameters
  kReshard,
  kReduceGrad,
  kReduceTied,  // sums a tie group's gradients
  kReduceLoss,
  kGatherOutputs,
  kReduceNorm,
  kUpdate,
  kPartialNorm,    // norms of the stage's gradients, while the rank would wait
  kOptimizerStep,  // updates stages without kUpdate
};

// Small (20 bytes), because plans contain millions of actions. Unused fields keep their defaults,
// so == is exact.
struct Action {
  ActionKind kind = ActionKind::kIdle;
  ActionKind backward_kind = ActionKind::kIdle;
  std::int16_t group = -1;
  std::int32_t stage = -1;  // in a pair: the forward's stage
  std::int32_t microbatch = -1;
  std::int32_t backward_stage = -1;
  std::int32_t backward_microbatch = -1;

  static constexpr int kMaxGroup = 32767;

  friend bool operator==(const Action&, const Action&) = default;

  static Action forward(int stage, int microbatch) {
    return make(ActionKind::kForward, stage, microbatch);
  }
  static Action backward(int stage, int microbatch) {
    return make(ActionKind::kBackward, stage, microbatch);
  }
  static Action backward_input(int stage, int microbatch) {
    return make(ActionKind::kBackwardInput, stage, microbatch);
  }
  static Action backward_weight(int stage, int microbatch) {
    return make(ActionKind::kBackwardWeight, stage, microbatch);
  }
  // Precondition: 0 <= group <= kMaxGroup.
  static Action reduce_tied(int group) {
    Action action;
    action.kind = ActionKind::kReduceTied;
    action.group = static_cast<std::int16_t>(group);
    return action;
  }
  // Not for kOverlap and kReduceTied.
  static Action make(ActionKind kind, int stage = -1, int microbatch = -1) {
    Action action;
    action.kind = kind;
    action.stage = stage;
    action.microbatch = microbatch;
    return action;
  }
  static Action overlap(const Action& forward, const Action& backward);

  Action overlap_forward() const { return make(ActionKind::kForward, stage, microbatch); }
  Action overlap_backward() const {
    return make(backward_kind, backward_stage, backward_microbatch);
  }
};

constexpr bool is_compute(ActionKind kind) {
  return kind >= ActionKind::kForward && kind <= ActionKind::kOverlap;
}

// "" for kIdle.
std::string to_text(const Action& action);

// Inverse of to_text(). Allows spaces around the text and the halves of a pair. Throws
// Error(kInput).
Action parse_action(std::string_view text);

}  // namespace sluice
