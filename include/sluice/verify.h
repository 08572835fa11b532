// The proof of a program, before anything runs.
//
// verify() returns every violation and never throws:
//  - ownership: every action on the rank that owns its stage; every stage owned by one rank;
//  - completeness: each stage x microbatch has F once, and B once or I and W once each;
//  - order: F before its backward, I before W, neighbours' results before use;
//  - transfers: every SEND has its RECV and the reverse, in the same order on every channel;
//  - collectives: all ranks concerned execute them, in the same order, after what they reduce;
//  - freedom from deadlock under the strict reading (a SEND never waits; a RECV waits until its
//    message heads its channel), so that it also completes under the looser reading of program.h.
// Linear in the number of actions. Thread-safety: pure function.
#pragma once

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

struct VerifyReport {
  std::vector<Violation> violations;
  // Smallest uniform channel capacity (messages) with which the program completes if a SEND waits
  // for room; 0 when nothing is sent. Meaningful only if ok().
  int required_capacity = 0;
  // Largest occupancy that a channel can reach over every possible timing.
  int max_in_flight = 0;
  bool ok() const { return violations.empty(); }
};

VerifyReport verify(const Program& program);

// Throws Error(kInput) with the first violation (and their number) unless ok().
void require_verified(const VerifyReport& report, const std::string& subject);

}  // namespace sluice
