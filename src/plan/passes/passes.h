// The passes that lower a Schedule into a Program. Every pass keeps the order of existing
// instructions.
#pragma once

#include <string>
#include <vector>

#include "sluice/program.h"

namespace sluice {

// Drops idle slots and lets microbatches flow through all stages in order. A schedule that contains
// transfers (compute_comms) keeps them. If a stage has no rank, the passes exchange nothing with
// it.
Program to_program(const Schedule& schedule);

// ---- passes ----
// All throw Error(kInput) if an instruction has an unknown stage or microbatch.

// Keeps only forwards, for evaluation. A pair becomes its F. Sets forward_only.
Program keep_forward(Program program);
// Keeps only an OPTIMIZER_STEP on every rank. Sets update_only.
Program keep_update(Program program);
// Drops instructions that only frozen parameters need. Stages without trained weights lose W, and
// their B becomes I. Stages before all trained ones lose the whole backward with its SEND_B and
// RECV_B. Throws Error(kUsage) unless `backwards` has one entry per stage.
Program drop_frozen(Program program, std::vector<StageBackward> backwards);
// Replaces I directly followed by its W with B.
Program merge_backward(Program program);
// Replaces every B by I, W, except within pairs.
Program split_backward(Program program);
// Replaces every OVERLAP by its F and its backward.
Program split_overlap(Program program);
// Adds SEND directly after its compute action (after a pair, forward first). RECV is added to the
// other rank at the same moment of a replay, so both ends of a channel agree on the order. The
// result is that of torch's `_add_send_recv`. Throws Error(kInput) if there already are transfers.
// If the order cannot complete, the error names the first stuck action of every rank.
Program add_transfers(Program program);
// Moves every RECV down to the instruction that needs it, or to the row's next transfer. Transfers
// keep their order, so the program stays correct on every transport. torch's `_defer_recv_ops`
// changes that order. Throws Error(kInput) for an unused RECV.
Program defer_receives(Program program);
// Adds UNSHARD before a stage's use and RESHARD after it, keeping at most `max_active_stages`
// gathered (torch `_add_unshard_reshard`, default 3). If the last of them is the forward stage of a
// pair, its backward stage is gathered, too. Throws Error(kUsage) for a limit below 1.
Program add_unshard_reshard(Program program, int max_active_stages = 3);
// Adds {s}REDUCE_GRAD directly after the stage's last weight gradient, or {s}REDUCE_GRAD{m} after
// each.
Program add_reduce_grad(Program program, bool per_microbatch = false);
// Adds {g}REDUCE_TIED after all compute, in group order, on every rank with a member of a group
// that spans several stages.
Program add_tied_reductions(Program program, std::vector<TieGroup> groups);
// On every rank, before REDUCE_NORM, UPDATE and OPTIMIZER_STEP, otherwise at the end.
Program add_loss_reduction(Program program);
// In the same place as REDUCE_LOSS.
Program add_output_gathering(Program program);
// At the end of every rank. REDUCE_NORM is added if `with_norm`.
Program add_optimizer_step(Program program, bool with_norm);
// In rows with REDUCE_NORM, adds {s}PARTIAL_NORM for stages with weight gradients, once these are
// complete. That is after the last gradient and its SEND, or after the last REDUCE_TIED of the
// stage. For stages with REDUCE_GRAD it is directly before REDUCE_NORM, because waiting earlier
// would end the reduction's overlap with compute.
Program add_partial_norms(Program program);
// Replaces OPTIMIZER_STEP by {s}UPDATE for every stage with weight gradients, in order of first
// compute (ascending if update_only). Communication of a stage's update then overlaps the next
// stage's update. Rows without such stages keep OPTIMIZER_STEP.
Program split_optimizer_step(Program program);

// The passes that lower() applies for these options, in order.
struct NamedPass {
  std::string name;
  Program (*apply)(Program, const LowerOptions&) = nullptr;
};
std::vector<NamedPass> lowering_passes(const LowerOptions& options);

}  // namespace sluice
