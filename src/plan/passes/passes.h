// The passes that lower a Schedule into a Program. All keep the order of existing instructions.
#pragma once

#include <string>
#include <vector>

#include "sluice/program.h"

namespace sluice {

// Drops idle slots. Microbatches flow through all stages in order. Existing transfers
// (compute_comms) are kept. Passes exchange nothing with a stage that has no rank.
Program to_program(const Schedule& schedule);

// All passes throw Error(kInput) for an unknown stage or microbatch.

// Keeps only forwards. A pair becomes its F. Sets forward_only.
Program keep_forward(Program program);
// Keeps only an OPTIMIZER_STEP per rank. Sets update_only.
Program keep_update(Program program);
// Drops instructions that only frozen parameters need (drop_frozen.cpp). Throws Error(kUsage)
// unless `backwards` has one entry per stage.
Program drop_frozen(Program program, std::vector<StageBackward> backwards);
// Replaces I directly followed by its W with B.
Program merge_backward(Program program);
// Replaces every B by I, W, except within pairs.
Program split_backward(Program program);
// Replaces every OVERLAP by its F and its backward.
Program split_overlap(Program program);
// Adds SEND directly after its compute action (after a pair, forward first). All channels have a
// consistent order (add_transfers.cpp). Throws Error(kInput) if transfers exist already or if the
// order cannot complete.
Program add_transfers(Program program);
// Moves every RECV down to the instruction that needs it, or to the row's next transfer. Transfers
// keep their order. Throws Error(kInput) for an unused RECV.
Program defer_receives(Program program);
// Adds UNSHARD before and RESHARD after a stage's uses, keeping at most `max_active_stages`
// gathered (torch `_add_unshard_reshard`). If the last of them is a pair's forward stage, its
// backward stage is gathered, too. Throws Error(kUsage) for a limit below 1.
Program add_unshard_reshard(Program program, int max_active_stages = 3);
// Adds {s}REDUCE_GRAD directly after the stage's last weight gradient (torch `_add_reduce_grad`),
// or {s}REDUCE_GRAD{m} after each.
Program add_reduce_grad(Program program, bool per_microbatch = false);
// Adds {g}REDUCE_TIED after all compute on each rank with a member of a multi-stage group. All
// ranks use group order, so they cannot deadlock.
Program add_tied_reductions(Program program, std::vector<TieGroup> groups);
// On every rank, adds REDUCE_LOSS before REDUCE_NORM and updates, or at the end.
Program add_loss_reduction(Program program);
// Adds GATHER_OUTPUTS in the same place.
Program add_output_gathering(Program program);
Program add_optimizer_step(Program program, bool with_norm);
// In rows with REDUCE_NORM, adds {s}PARTIAL_NORM once a stage's weight gradients are complete. That
// is after the last one and its SEND, or after the last REDUCE_TIED. With REDUCE_GRAD it is just
// before REDUCE_NORM, so that the reduction overlaps with compute.
Program add_partial_norms(Program program);
// Replaces OPTIMIZER_STEP by {s}UPDATE per stage with weight gradients, in order of first compute
// (ascending if update_only). Rows without such stages keep OPTIMIZER_STEP.
Program split_optimizer_step(Program program);

// In the order in which lower() applies them.
struct NamedPass {
  std::string name;
  Program (*apply)(Program, const LowerOptions&) = nullptr;
};
std::vector<NamedPass> lowering_passes(const LowerOptions& options);

}  // namespace sluice
