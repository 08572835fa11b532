// One instruction of one rank: the vocabulary that schedules, programs, files and the executor
// share.
//
// Text form, that of torch.distributed.pipelining (torch 2.13, schedules.py `_Action`):
//   {stage}F{mb} {stage}B{mb} {stage}I{mb} {stage}W{mb}      compute
//   ({stage}F{mb};{stage}B{mb})OVERLAP_F_B                    a pair that may overlap
//   {stage}SEND_F{mb} {stage}RECV_F{mb}                       activation: leaves / enters the stage
//   {stage}SEND_B{mb} {stage}RECV_B{mb}                       gradient: leaves / enters the stage
//   {stage}UNSHARD {stage}RESHARD {stage}REDUCE_GRAD          data-parallel
// Ours, beyond torch:
//   {stage}REDUCE_GRAD{mb}                                    gradients of one microbatch alone
//   {group}REDUCE_TIED  REDUCE_LOSS  GATHER_OUTPUTS  REDUCE_NORM  OPTIMIZER_STEP   end of a step
//   {stage}PARTIAL_NORM  {stage}UPDATE                        norms and update of one stage
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/parts/layout.h"

namespace sluice {

enum class ActionKind : std::uint8_t {
  kIdle,            // an empty slot of a grid; never in a Program
  kForward,         // F
  kBackward,        // B: gradients of input and weights
  kBackwardInput,   // I: gradient of the input only
  kBackwardWeight,  // W: gradients of the weights only, after I
  kOverlap,         // F of one stage together with B (or I) of another, on the same rank
  kSendForward,     // this stage's output leaves for its consumer (flow.h)
  kRecvForward,     // this stage's input arrives from its producer
  kSendBackward,    // this stage's input gradient leaves for its producer
  kRecvBackward,    // this stage's output gradient arrives from its consumer
  kUnshard,         // gather the stage's sharded parameters
  kReshard,         // drop the gathered parameters
  kReduceGrad,      // reduce the stage's gradients, or those of one microbatch, over the
                    // data-parallel axis
  kReduceTied,      // sum the gradients of one tie group over the ranks that hold a member
  kReduceLoss,      // every rank gets the loss of the step and its counted tokens
  kGatherOutputs,   // every rank gets the outputs of the model
  kReduceNorm,      // global gradient norm over all ranks
  kUpdate,          // update the stage's parameters
  kPartialNorm,     // the norms of the stage's gradients, while the rank would wait otherwise
  kOptimizerStep,   // update the parameters of this rank's stages that have no kUpdate
};

// 20 bytes, plain value: plans have millions. Fields that a kind does not use hold their defaults,
// so == is exact.
struct Action {
  ActionKind kind = ActionKind::kIdle;
  ActionKind backward_kind = ActionKind::kIdle;  // kOverlap: kBackward or kBackwardInput
  std::int16_t group = -1;                       // kReduceTied only: index of the tie group
  std::int32_t stage = -1;                       // kOverlap: stage of the forward
  std::int32_t microbatch = -1;                  // kOverlap: microbatch of the forward
  std::int32_t backward_stage = -1;              // kOverlap only
  std::int32_t backward_microbatch = -1;         // kOverlap only

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
  // An action of any kind but kOverlap and kReduceTied.
  static Action make(ActionKind kind, int stage = -1, int microbatch = -1) {
    Action action;
    action.kind = kind;
    action.stage = stage;
    action.microbatch = microbatch;
    return action;
  }
  // Precondition: forward.kind is kForward; backward.kind is kBackward or kBackwardInput.
  static Action overlap(const Action& forward, const Action& backward);

  // The two halves of a kOverlap.
  Action overlap_forward() const { return make(ActionKind::kForward, stage, microbatch); }
  Action overlap_backward() const {
    return make(backward_kind, backward_stage, backward_microbatch);
  }
};

// True for F, B, I, W, OVERLAP.
constexpr bool is_compute(ActionKind kind) {
  return kind >= ActionKind::kForward && kind <= ActionKind::kOverlap;
}
// True for SEND_*, RECV_*.
constexpr bool is_transfer(ActionKind kind) {
  return kind >= ActionKind::kSendForward && kind <= ActionKind::kRecvBackward;
}
// True for UNSHARD, REDUCE_*, GATHER_OUTPUTS, UPDATE: it starts work that its first user, further
// down its row, waits for (program.h).
constexpr bool is_post(ActionKind kind) {
  return kind == ActionKind::kUnshard ||
         (kind >= ActionKind::kReduceGrad && kind <= ActionKind::kUpdate);
}

// The axes of the mesh that an instruction spans. SEND, RECV and REDUCE_TIED: pp. UNSHARD, and
// RESHARD that undoes it: dp_shard. REDUCE_GRAD and UPDATE: dp_replicate and dp_shard.
// REDUCE_LOSS and REDUCE_NORM: every axis of the grid, that is all ranks of the run.
// GATHER_OUTPUTS: pp. Compute and PARTIAL_NORM, which a rank does alone, and OPTIMIZER_STEP, which
// stands for updates: none.
AxisSet axes_of(ActionKind kind);

// The text form; "" for kIdle.
std::string to_text(const Action& action);
void append_text(const Action& action, std::string& out);

// Exact inverse of to_text. Spaces around the text and around the parts of a pair are allowed;
// blank text is kIdle. Anything incomplete or trailing is refused: "0F", "1F0junk", "0f0",
// "0UNSHARD3", numbers above 2^31-1, a pair that is not F then B or I. Throws Error(kInput) that
// quotes the text and names the mistake.
Action parse_action(std::string_view text);

}  // namespace sluice
