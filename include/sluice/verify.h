// The proof of a program, before anything runs.
//
// verify() returns every violation and never throws:
//  - ownership: every action on the rank that owns its stage; every stage owned by one rank;
//  - completeness: each stage x microbatch has F once, and B once or I and W once each;
//  - order: F before its backward, I before W, neighbours' results before use;
//  - transfers: every SEND has its RECV and the reverse, in the same order on every channel of the
//    transport;
//  - collectives: all ranks concerned execute them, in the same order, after what they reduce;
//  - freedom from deadlock under the strict reading (a SEND never waits; a RECV waits until its
//    message heads its channel), so that it also completes under the looser reading of program.h.
// Linear in the number of actions. Thread-safety: pure function.
//
//   const VerifyReport report = verify(program, ProofTransport::kTorch);
//   for (const Verdict& verdict : report.verdicts) ...  // "gloo", "nccl"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/program.h"

namespace sluice {

struct Violation {
  int rank = -1;       // -1: no single rank
  int index = -1;      // index of that rank's instruction; -1: the rank as a whole
  std::string action;  // its text form; "" if there is none
  std::string reason;
};

// What carries the messages. A program may be right for one transport and wrong for another.
enum class ProofTransport : std::uint8_t {
  // One FIFO per source, destination and kind of message. A SEND never waits.
  kSluice,
  // One FIFO per source and destination. A SEND ends with its RECV, and the transfers between two
  // ranks run one after the other, in the order of each row.
  kRendezvous,
  // torch.distributed.pipelining, whose messages have no tags: one FIFO per source and destination.
  // Two verdicts: over Gloo a SEND never waits; over NCCL a SEND ends with its RECV, and the
  // transfers of a rank run one after the other (plan/verify/streams.h).
  kTorch,
};

// The result for one of the ways in which a transport may run a program.
struct Verdict {
  std::string name;  // "sluice", "rendezvous"; of kTorch "gloo" and "nccl"
  std::vector<Violation> violations;
  bool ok() const { return violations.empty(); }
};

struct VerifyReport {
  ProofTransport transport = ProofTransport::kSluice;
  std::vector<Violation> violations;  // of all verdicts, each once
  std::vector<Verdict> verdicts;
  // Smallest uniform channel capacity (messages) with which the program completes if a SEND waits
  // for room; 0 when nothing is sent. Meaningful only if ok().
  int required_capacity = 0;
  // Largest occupancy that a channel can reach over every possible timing.
  int max_in_flight = 0;
  bool ok() const { return violations.empty(); }
};

// A program without transfers is judged with those of add_transfers(), which hold for every
// transport.
VerifyReport verify(const Program& program, ProofTransport transport = ProofTransport::kSluice);

// Throws Error(kInput) with the first violation (and their number) unless ok().
void require_verified(const VerifyReport& report, const std::string& subject);

}  // namespace sluice
