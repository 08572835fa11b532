// Proves before a run that a program is complete and cannot deadlock (docs/verify.md).
//
//     const VerifyReport report = verify(program, ProofTransport::kTorch);
//     for (const Verdict& verdict : report.verdicts) ...  // "gloo", "nccl"
//
// verify() checks ownership of stages, completeness, order, transfers, collectives and deadlocks.
// It assumes that a RECV waits until its message heads the channel, which is stricter than
// program.h. Takes linear time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/program.h"

namespace sluice {

struct Violation {
  int rank = -1;   // -1: no single rank
  int index = -1;  // instruction of that rank; -1: no single one
  std::string action;
  std::string reason;
};

enum class ProofTransport : std::uint8_t {
  // One FIFO per source, destination and kind of message. A SEND never waits.
  kSluice,
  // One FIFO per source and destination. A SEND ends with its RECV. Transfers between two ranks run
  // one by one, in row order.
  kRendezvous,
  // torch.distributed.pipelining: one FIFO per source and destination. Over Gloo, a SEND never
  // waits. Over NCCL, a SEND ends with its RECV, and a rank's transfers run one by one.
  kTorch,
};

struct Verdict {
  std::string name;  // "sluice" or "rendezvous"; for kTorch "gloo" and "nccl"
  std::vector<Violation> violations;
  bool ok() const { return violations.empty(); }
};

struct VerifyReport {
  ProofTransport transport = ProofTransport::kSluice;
  std::vector<Violation> violations;  // of all verdicts, without duplicates
  std::vector<Verdict> verdicts;
  // Smallest channel capacity (messages) with which the program completes if a SEND waits for room.
  // Valid only if ok().
  int required_capacity = 0;
  // Most messages in a channel under any timing.
  int max_in_flight = 0;
  bool ok() const { return violations.empty(); }
};

// Returns every violation and never throws. Adds transfers to a program without any.
VerifyReport verify(const Program& program, ProofTransport transport = ProofTransport::kSluice);

// Throws Error(kInput) with the first violation and the number of violations unless report.ok().
void require_verified(const VerifyReport& report, const std::string& subject);

}  // namespace sluice
