// The proof for transfers by rendezvous, as those of NCCL are: a SEND ends only with its RECV, and
// all transfers from one rank to another, activations and gradients, stand in one lane, in the
// order in which they are sent. The ranks go on behind a SEND; the lane does not.
//
// Such a lane may get stuck where channels do not: a receiver that wants its messages in another
// order than that of the lane. Owns: nothing. Thread-safety: pure function.
#pragma once

#include <vector>

#include "sluice/verify.h"

namespace sluice {

// Precondition: verify() finds nothing, and the program holds its transfers.
std::vector<Violation> verify_rendezvous(const Program& program);

}  // namespace sluice
