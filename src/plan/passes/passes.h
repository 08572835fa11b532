// The passes that lower a Schedule into a Program. None reorders existing instructions.
#pragma once

#include <string>
#include <vector>

#include "sluice/program.h"

namespace sluice {

// Drops idle slots and keeps existing transfers. Microbatches flow through all stages in order. A
// stage without a rank exchanges nothing.
Program to_program(const Schedule& schedule);

// All passes throw Error(kInput) for an unknown stage or microbatch.

// Keeps only forwards, also those of overlapped pairs. Sets forward_only.
Program keep_forward(Program program);
// Keeps only an OPTIMIZER_STEP per rank. Sets update_only.
Program keep_update(Program program);
// Drops instructions that only frozen parameters need (drop_frozen.cpp). Throws Error(kUsage)
// unless `backwards` has one entry per stage.
Program drop_frozen(Program program, std::vector<StageBackward> backwards);
// Replaces I (input gradient) directly followed by its W (weight gradient) with B.
Program merge_backward(Program program);
// Replaces every B by I and W, except within overlapped pairs.
Program split_backward(Program program);
// Replaces every overlapped pair by its forward and its backward.
Program split_overlap(Program program);
// Adds SENDs directly after the compute action, and RECVs (add_transfers.cpp). Throws Error(kInput)
// if transfers exist already or if the order cannot complete.
Program add_transfers(Program program);
// Moves every RECV down to the instruction that needs it, or to the rank's next transfer. Transfers
// keep their order. Throws Error(kInput) for an unused RECV.
Program defer_receives(Program program);
// Adds UNSHARD before and RESHARD after a stage's uses (torch `_add_unshard_reshard`). Keeps at
// most `max_active_stages` gathered, plus one for the backward of an overlapped pair. Throws
// Error(kUsage) for a limit below 1.
Program add_unshard_reshard(Program program, int max_active_stages = 3);
// Adds {s}REDUCE_GRAD directly after the stage's last weight gradient (torch `_add_reduce_grad`),
// or {s}REDUCE_GRAD{m} after each.
Program add_reduce_grad(Program program, bool per_microbatch = false);
// Adds {g}REDUCE_TIED after all compute, on each rank with a stage of a multi-stage tie group g.
// All ranks use the same order, so they cannot deadlock.
Program add_tied_reductions(Program program, std::vector<TieGroup> groups);
// Adds REDUCE_LOSS on every rank, before REDUCE_NORM and updates or at the end.
Program add_loss_reduction(Program program);
// Adds GATHER_OUTPUTS in the same places as add_loss_reduction().
Program add_output_gathering(Program program);
Program add_optimizer_step(Program program, bool with_norm);
// On ranks with REDUCE_NORM, adds {s}PARTIAL_NORM once a stage's weight gradients are complete:
// after the last of them and its SEND, or after the last REDUCE_TIED. With REDUCE_GRAD it is just
// before REDUCE_NORM, so that the reduction overlaps with compute.
Program add_partial_norms(Program program);
// Replaces OPTIMIZER_STEP by {s}UPDATE for each stage with weight gradients, in order of first
// compute (ascending if update_only). Ranks without such stages keep OPTIMIZER_STEP.
Program split_optimizer_step(Program program);

struct NamedPass {
  std::string name;
  Program (*apply)(Program, const LowerOptions&) = nullptr;
};
std::vector<NamedPass> lowering_passes(const LowerOptions& options);

}  // namespace sluice
