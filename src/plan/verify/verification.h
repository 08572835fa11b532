// State shared by the checks of verify().
//
// Each fault is reported once, where it can be fixed. Checks therefore ignore instructions that
// depend on a missing, repeated or misplaced one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/neighbours.h"
#include "plan/stage_microbatch_table.h"
#include "plan/verify/instruction_indices.h"
#include "plan/verify/streams.h"
#include "sluice/program.h"
#include "sluice/verify.h"

namespace sluice::detail {

class Verification {
 public:
  Verification(const Program& checked, ProofTransport carrier)
      : program(checked), transport(carrier), with_transfers(holds_transfers(checked)) {}

  ChannelsPer channels_per() const {
    return transport == ProofTransport::kSluice ? ChannelsPer::kKind : ChannelsPer::kDirection;
  }

  const Program& program;
  const ProofTransport transport;
  const bool with_transfers;  // false: compute actions exchange values directly
  StageMicrobatchTable<InstructionIndices> instructions;
  std::vector<bool> rank_is_bare;  // [rank]: owns stages but has no instructions

  void report(int rank, int index, std::string reason);
  void report_absent(int rank, const Action& action, std::string reason);
  // Rank -1 stands for the whole program.
  void report_rank(int rank, std::string reason);
  // Returns violations ordered by rank and index. If there are too many, the last entry counts the
  // rest.
  std::vector<Violation> take_violations();
  bool clean() const { return violations_.empty(); }

 private:
  void add(Violation violation);

  std::vector<Violation> violations_;
  std::int64_t num_cut_ = 0;
};

// Checks list sizes and the placement of stages. Returns false if nothing else can be checked.
bool check_well_formed(Verification& verification);
// Fills `instructions`. Checks ranges, ownership and repetition.
void index_instructions(Verification& verification);
void check_completeness(Verification& verification);
void check_order(Verification& verification);
void check_transfers(Verification& verification);
void check_sharding(Verification& verification);
// Checks REDUCE_*, GATHER_OUTPUTS, PARTIAL_NORM, UPDATE and OPTIMIZER_STEP.
void check_reductions(Verification& verification);
// Returns false if ranks wait for each other in a cycle. The violations' text begins with
// `deadlock`.
bool check_deadlock(Verification& verification, Streams streams, std::string_view deadlock);

// Returns "'1F3'". Reports quote instructions because displays number them differently.
std::string quote(const Action& action);
std::string quote(const Program& program, int rank, int index);

}  // namespace sluice::detail
