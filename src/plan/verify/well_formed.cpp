#include "base/format.h"
#include "base/text.h"
#include "plan/action_kinds.h"
#include "plan/verify/verification.h"

namespace sluice::detail {
namespace {

std::string range_text(int first, int last) {
  return first == last ? formatted("stage {} lives", first)
                       : formatted("stages {} to {} live", first, last);
}

// Reports adjacent stages without a rank as one violation.
void check_placement(Verification& v) {
  const Program& program = v.program;
  const auto is_placed = [&](int stage) {
    const int rank = program.stage_map.rank_of(stage);
    return rank >= 0 && rank < program.num_ranks();
  };
  for (int stage = 0; stage < program.num_stages(); ++stage) {
    if (is_placed(stage)) continue;
    const int first = stage;
    while (stage + 1 < program.num_stages() && !is_placed(stage + 1)) ++stage;
    v.report_rank(-1, range_text(first, stage) + " on no rank of the program");
  }
}

void find_bare_ranks(Verification& v) {
  v.rank_is_bare.assign(static_cast<std::size_t>(v.program.num_ranks()), false);
  for (int stage = 0; stage < v.program.num_stages(); ++stage) {
    const int rank = v.program.stage_map.rank_of(stage);
    if (rank < 0 || rank >= v.program.num_ranks()) continue;
    if (!v.program.ranks[rank].empty() || v.rank_is_bare[rank]) continue;
    v.rank_is_bare[rank] = true;
    v.report_rank(rank, formatted("owns stage {} and has no instruction", stage));
  }
}

// A stage must have a backward exactly if the stage that reads its output returns gradients.
void check_backwards(Verification& v) {
  const Program& program = v.program;
  for (int stage = 0; stage < program.num_stages() && !program.backwards.empty(); ++stage) {
    const bool has_backward = program.backward_of(stage) != StageBackward::kNone;
    for (int microbatch = 0; microbatch < program.num_microbatches; ++microbatch) {
      const int consumer = program.flow.consumer(stage, microbatch);
      if (consumer == Flow::kNone ||
          has_backward == passes_gradients_on(program.backward_of(consumer))) {
        continue;
      }
      v.report_rank(
          program.stage_map.rank_of(stage),
          formatted("stage {}{}{}{}", stage,
                    has_backward ? " has a backward, but stage " : " has no backward, stage ",
                    consumer, has_backward ? " hands it no gradient" : " hands it a gradient"));
      break;
    }
  }
}

// Returns why a frozen stage cannot have this backward action, or "".
std::string frozen(const Program& program, const Action& action) {
  if (program.backwards.empty() || !names_stage(action.kind)) return {};
  const StageBackward backward = program.backward_of(action.stage);
  const auto stage = [&] { return "stage " + std::to_string(action.stage); };
  const bool sends = action.kind == ActionKind::kSendBackward;
  const bool of_weights =
      makes_weight_gradient(action.kind) || action.kind == ActionKind::kReduceGrad ||
      action.kind == ActionKind::kPartialNorm || action.kind == ActionKind::kUpdate;
  const bool of_backward = of_weights || sends || makes_input_gradient(action.kind) ||
                           action.kind == ActionKind::kRecvBackward;
  if (of_backward && backward == StageBackward::kNone)
    return "nothing up to " + stage() + " is trained: it has no backward";
  if (of_weights && !has_weight_gradients(backward)) return "nothing of " + stage() + " is trained";
  if (sends && !passes_gradients_on(backward)) return "nothing below " + stage() + " is trained";
  return {};
}

std::string not_passed(int stage, int microbatch) {
  return formatted("microbatch {} does not pass stage {}", microbatch, stage);
}

// Returns why no program with these stages and microbatches can contain the action, or "".
std::string impossible(const Program& program, const Action& action) {
  const auto beyond = [](int value, int count) { return value < 0 || value >= count; };
  if (action.kind == ActionKind::kIdle) return "an idle slot is not an instruction";
  if (action.kind == ActionKind::kReduceTied &&
      beyond(action.group, static_cast<int>(program.tie_groups.size()))) {
    return formatted("the program has {} groups of tied parameters", program.tie_groups.size());
  }
  if (!names_stage(action.kind)) return {};
  const bool is_pair = action.kind == ActionKind::kOverlap;
  if (beyond(action.stage, program.num_stages()) ||
      (is_pair && beyond(action.backward_stage, program.num_stages()))) {
    return "the program has " + counted(program.num_stages(), "stage");
  }
  const bool has_microbatch = is_compute(action.kind) || is_transfer(action.kind);
  if ((has_microbatch && beyond(action.microbatch, program.num_microbatches)) ||
      (is_pair && beyond(action.backward_microbatch, program.num_microbatches))) {
    return "the program has " + counted(program.num_microbatches, "microbatch");
  }
  const auto passes = [&](int stage, int microbatch) {
    return program.flow.passes(stage, microbatch);
  };
  if (has_microbatch && !passes(action.stage, action.microbatch)) {
    return not_passed(action.stage, action.microbatch);
  }
  if (is_pair && !passes(action.backward_stage, action.backward_microbatch)) {
    return not_passed(action.backward_stage, action.backward_microbatch);
  }
  if (is_pair && !makes_input_gradient(action.backward_kind)) {
    return "the second of a pair must be B or I";
  }
  return {};
}

std::string misplaced(const Program& program, const Action& action, int rank) {
  const int stages[] = {action.stage, action.backward_stage};
  for (const int stage : stages) {
    const int owner = program.stage_map.rank_of(stage);
    if (stage < 0 || owner == rank) continue;
    return formatted("stage {}{}", stage,
                     owner < 0 ? " lives on no rank" : " lives on rank " + std::to_string(owner));
  }
  return {};
}

// Returns why the transfer is unnecessary, or "".
std::string pointless(const Program& program, const Action& transfer) {
  const int peer = peer_stage(program, transfer);
  if (peer == Flow::kNone) {
    const bool is_behind =
        is_send(transfer.kind) == (channel_kind_of(transfer.kind) == ChannelKind::kActivation);
    return formatted("there is no stage {} stage {}", is_behind ? "behind" : "before",
                     transfer.stage);
  }
  if (program.stage_map.rank_of(peer) == program.stage_map.rank_of(transfer.stage)) {
    return formatted("stages {} and {} live on one rank: nothing is transferred between them",
                     transfer.stage, peer);
  }
  return {};
}

bool is_backward(const Action& action) {
  return makes_input_gradient(action.kind) || makes_weight_gradient(action.kind) ||
         action.kind == ActionKind::kOverlap || action.kind == ActionKind::kSendBackward ||
         action.kind == ActionKind::kRecvBackward;
}

void record(Verification& v, int rank, int index, const Action& action) {
  std::int32_t& first = v.instructions.at({action.stage, action.microbatch})[action.kind];
  if (first >= 0) {
    v.report(rank, index, quote(action) + " runs a second time");
  } else {
    first = index;
  }
}

void record_elsewhere(Verification& v, const Action& action) {
  std::int32_t& first = v.instructions.at({action.stage, action.microbatch})[action.kind];
  if (first == InstructionIndices::kAbsent) first = InstructionIndices::kElsewhere;
}

}  // namespace

bool check_well_formed(Verification& v) {
  const Program& program = v.program;
  const bool has_microbatches = program.num_microbatches >= 1;
  if (program.num_ranks() < 1 || program.num_stages() < 1 ||
      (!has_microbatches && !program.update_only)) {
    v.report_rank(-1, "a program has at least one rank, one stage and one microbatch");
    return false;
  }
  if (program.update_only && (has_microbatches || program.forward_only)) {
    v.report_rank(-1, "a program that only updates has neither microbatches nor forwards");
    return false;
  }
  if (program.ranks.size() != static_cast<std::size_t>(program.num_ranks())) {
    v.report_rank(-1, formatted("{} rows for {} ranks", program.ranks.size(), program.num_ranks()));
    return false;
  }
  if (program.flow.num_stages() != program.num_stages() ||
      !program.flow.covers(program.num_microbatches)) {
    v.report_rank(-1, "the flow does not match " + counted(program.num_stages(), "stage") +
                          " and " + counted(program.num_microbatches, "microbatch"));
    return false;
  }
  if (program.mesh.size(Axis::kPp) != program.num_ranks()) {
    v.report_rank(-1, "the mesh has " + counted(program.mesh.size(Axis::kPp), "rank") +
                          " along pp for " + counted(program.num_ranks(), "rank"));
    return false;
  }
  if (!program.backwards.empty() &&
      program.backwards.size() != static_cast<std::size_t>(program.num_stages())) {
    v.report_rank(-1,
                  formatted("the backward's parts are given for {} of {}",
                            counted(static_cast<std::int64_t>(program.backwards.size()), "stage"),
                            program.num_stages()));
    return false;
  }
  check_placement(v);
  find_bare_ranks(v);
  if (!program.forward_only) check_backwards(v);
  return true;
}

void index_instructions(Verification& v) {
  v.instructions = StageMicrobatchTable<InstructionIndices>(v.program);
  for (int rank = 0; rank < v.program.num_ranks(); ++rank) {
    const std::vector<Action>& row = v.program.ranks[rank];
    for (int index = 0; index < static_cast<int>(row.size()); ++index) {
      const Action& action = row[index];
      if (std::string reason = impossible(v.program, action); !reason.empty()) {
        v.report(rank, index, std::move(reason));
        continue;
      }
      if (v.program.update_only && action.kind != ActionKind::kUpdate &&
          action.kind != ActionKind::kOptimizerStep) {
        v.report(rank, index, "the program only updates");
        continue;
      }
      if (!names_stage(action.kind)) continue;
      const bool has_microbatch = is_compute(action.kind) || is_transfer(action.kind);
      if (std::string reason = misplaced(v.program, action, rank); !reason.empty()) {
        v.report(rank, index, std::move(reason));
      }
      if (!has_microbatch) {
        if (std::string reason = frozen(v.program, action); !reason.empty())
          v.report(rank, index, std::move(reason));
        continue;
      }
      if (v.program.forward_only && is_backward(action)) {
        v.report(rank, index, "the program is forward only");
        continue;
      }
      const auto enter = [&](const Action& part) {
        if (std::string reason = frozen(v.program, part); !reason.empty()) {
          v.report(rank, index, std::move(reason));
          return;
        }
        if (v.program.stage_map.rank_of(part.stage) == rank)
          record(v, rank, index, part);
        else
          record_elsewhere(v, part);
      };
      if (is_compute(action.kind)) {
        for_each_half(action, enter);
      } else if (std::string reason = pointless(v.program, action); !reason.empty()) {
        v.report(rank, index, std::move(reason));
      } else {
        enter(action);
      }
    }
  }
}

}  // namespace sluice::detail
