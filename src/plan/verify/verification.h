// State shared by the checks of verify(). Each kind of check has its own file.
//
// Every fault is reported once, where it can be fixed. Checks therefore ignore instructions that
// depend on a missing, repeated or misplaced instruction.
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
  const bool with_transfers;  // otherwise compute actions exchange values directly
  StageMicrobatchTable<InstructionIndices> instructions;
  std::vector<bool> rank_is_bare;  // owns stages but has no instructions; reported once per rank

  // Reports a violation at an instruction.
  void report(int rank, int index, std::string reason);
  // Reports an instruction that is missing from the rank.
  void report_absent(int rank, const Action& action, std::string reason);
  // Reports a violation of the whole rank, or of the program for -1.
  void report_rank(int rank, std::string reason);
  // Returns the violations since the last call, by rank and index. Very long lists are cut; their
  // last entry counts the omitted violations.
  std::vector<Violation> take_violations();
  bool clean() const { return violations_.empty(); }

 private:
  void add(Violation violation);

  std::vector<Violation> violations_;
  std::int64_t num_cut_ = 0;
};

// Checks sizes and placement. Returns false if no other check is possible.
bool check_well_formed(Verification& verification);
// Checks ranges, ownership and repetition. Fills `instructions`.
void index_instructions(Verification& verification);
// Every stage runs each microbatch forward once, and backward once, as B or as I and W.
void check_completeness(Verification& verification);
// Every instruction comes after its inputs in the same row.
void check_order(Verification& verification);
// Every SEND has its RECV and vice versa, in equal order on every channel.
void check_transfers(Verification& verification);
void check_sharding(Verification& verification);
// REDUCE_*, GATHER_OUTPUTS, PARTIAL_NORM, UPDATE and OPTIMIZER_STEP.
void check_reductions(Verification& verification);
// Ranks must not wait for each other in a cycle. With streams, a RECV also waits for the transfers
// ahead of it and of its SEND. Reasons begin with `deadlock`. Returns false on a cycle.
bool check_deadlock(Verification& verification, Streams streams, std::string_view deadlock);

// Returns "'1F3'". Reasons quote instructions because displays may number them differently.
std::string quote(const Action& action);
std::string quote(const Program& program, int rank, int index);

}  // namespace sluice::detail
