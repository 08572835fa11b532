// The passes that lower a Schedule into a Program.
//
// Owns: each pass, their names and order. Does not own: the meaning of instructions (program.h),
// proof. Every pass is Program -> Program, keeps the order of what was there, and can be tested
// alone. Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/program.h"

namespace sluice {

// Drops idle slots; microbatches flow along the chain of all stages. A schedule that already holds
// transfers (compute_comms) keeps them. With a stage that lives on no rank the passes exchange
// nothing.
Program to_program(const Schedule& schedule);

// ---- passes ----
// All throw Error(kInput) for an instruction whose stage or microbatch the program does not have.

// The forwards alone: every backward goes, a pair becomes its F; sets forward_only. For evaluation.
Program keep_forward(Program program);
// The other way round, an update by itself: OPTIMIZER_STEP on every rank; sets update_only.
Program keep_update(Program program);
// Instructions that nothing trained needs go: W of stages that train nothing (a B becomes I), and
// below all that is trained every backward, with SEND_B and RECV_B where the program holds them.
// backwards: of every stage. Throws Error(kUsage) for another number of stages.
Program drop_frozen(Program program, std::vector<StageBackward> backwards);
// {s}I{m} with the {s}W{m} of the same stage and microbatch directly after it becomes {s}B{m}.
Program merge_backward(Program program);
// Inverse: every B becomes I, W. Halves of overlapped pairs stay.
Program split_backward(Program program);
// Every OVERLAP becomes its F then its backward.
Program split_overlap(Program program);
// SEND directly after its compute action (both halves of a pair: forward first); the matching RECV
// is placed on the destination at the same moment of the replay, so the order on every channel
// agrees by construction (torch `_add_send_recv` order). Same-rank neighbours exchange nothing.
// Throws Error(kInput) when the program holds transfers already, and, with the first stuck action
// of every rank, when the order cannot complete.
Program add_transfers(Program program);
// Moves every RECV down to just before the instruction that needs it, or before the next transfer
// of its row. The order of a row's transfers stays, so the program stays right for every transport;
// torch's `_defer_recv_ops` changes that order. Throws Error(kInput) for a RECV that nothing below
// it needs.
Program defer_receives(Program program);
// UNSHARD before a stage's use, RESHARD after, at most `max_active_stages` gathered at once
// (torch `_add_unshard_reshard`; its default is 3): the stages that the row uses next. A pair whose
// forward stage is the last of them brings its backward stage as well. Throws Error(kUsage) for a
// bound below 1.
Program add_unshard_reshard(Program program, int max_active_stages = 3);
// {s}REDUCE_GRAD directly after the stage's last gradient of weights; per_microbatch:
// {s}REDUCE_GRAD{m} directly after each.
Program add_reduce_grad(Program program, bool per_microbatch = false);
// {g}REDUCE_TIED for every group that spans several stages, in group order, on every rank that
// holds a member, after all compute of that rank.
Program add_tied_reductions(Program program, std::vector<TieGroup> groups);
// REDUCE_LOSS on every rank: above its REDUCE_NORM, UPDATE or OPTIMIZER_STEP, else at the end.
Program add_loss_reduction(Program program);
// GATHER_OUTPUTS on every rank: at the same place.
Program add_output_gathering(Program program);
// REDUCE_NORM (with_norm), OPTIMIZER_STEP at the end of every rank.
Program add_optimizer_step(Program program, bool with_norm);
// {s}PARTIAL_NORM in every row with REDUCE_NORM, of its stages with gradients of weights: where
// they are known, that is behind the last of them and the SEND of the same action, or behind the
// last REDUCE_TIED with a member in the stage; of a stage with REDUCE_GRAD directly above
// REDUCE_NORM, since waiting for it earlier would end its overlap with compute.
Program add_partial_norms(Program program);
// OPTIMIZER_STEP becomes {s}UPDATE of every stage of its row that has gradients of weights, in the
// order in which the row computes with them first (update_only: ascending); a row without such a
// stage keeps its OPTIMIZER_STEP. What replicas share of an update goes on while the next stage is
// updated.
Program split_optimizer_step(Program program);

// The passes by name, in the order in which lower() applies them for these options: forward only,
// update only, frozen, merge, unshard, reduce gradients, transfers, defer, tied reductions, loss,
// outputs, optimizer step, partial norms, update by stage.
struct NamedPass {
  std::string name;
  Program (*apply)(Program, const LowerOptions&) = nullptr;
};
std::vector<NamedPass> lowering_passes(const LowerOptions& options);

}  // namespace sluice
