// The shared part of the checks of verify(). One file per kind of check; verify.cpp runs them in
// order.
//
// Owns: the list of violations and the index of instructions while one program is verified.
// Thread-safety: one Verification per call.
//
// Invariants:
// 1. A fault is reported once, where it can be mended. What follows from it is not: whoever needs
// an
//    instruction that is missing, doubled or on the wrong rank is silent about it.
// 2. `instructions` holds the first occurrence of every instruction that is in range and on its own
// rank.
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
  const bool with_transfers;  // else what crosses ranks is handed over by the compute actions
  StageMicrobatchTable<InstructionIndices> instructions;
  std::vector<bool> rank_is_bare;  // owns stages and has no instruction: reported as a whole

  // At an instruction.
  void report(int rank, int index, std::string reason);
  // Reports that an instruction is absent which should be on this rank.
  void report_absent(int rank, const Action& action, std::string reason);
  // Reports a violation of the rank as a whole; -1: of the program.
  void report_rank(int rank, std::string reason);
  // The violations since the last call, by rank and index. A very long list is cut, with a last
  // entry that gives the number of violations that were left out.
  std::vector<Violation> take_violations();
  bool clean() const { return violations_.empty(); }

 private:
  void add(Violation violation);

  std::vector<Violation> violations_;
  std::int64_t num_cut_ = 0;
};

// Sizes and placement. False: nothing else can be checked.
bool check_well_formed(Verification& verification);
// Range, ownership, repetition; fills `instructions`.
void index_instructions(Verification& verification);
// Every stage and microbatch forward once, and backward once or input and weight once each.
void check_completeness(Verification& verification);
// Every instruction is below what it needs from its own row.
void check_order(Verification& verification);
// Every SEND has its RECV and the reverse, in one order on every channel.
void check_transfers(Verification& verification);
// UNSHARD and RESHARD.
void check_sharding(Verification& verification);
// REDUCE_*, GATHER_OUTPUTS, PARTIAL_NORM, UPDATE, OPTIMIZER_STEP.
void check_reductions(Verification& verification);
// No cycle of ranks that wait for each other. With streams a RECV also waits for the transfers
// before it and before its SEND. Reasons begin with `deadlock`. False: there is a cycle.
bool check_deadlock(Verification& verification, Streams streams, std::string_view deadlock);

// "'1F3'". Reasons name instructions, not indices: who shows them may count otherwise.
std::string quote(const Action& action);
std::string quote(const Program& program, int rank, int index);

}  // namespace sluice::detail
