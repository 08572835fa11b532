// The error of an instruction, as one Error that says where it was thrown.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/error.h"
#include "sluice/parts/action.h"

namespace sluice {

// To be called while an exception is handled. Keeps what a sluice::Error says and adds the place:
// "rank 2, instruction 17 '1B3' (stage 1, microbatch 3), step 5, layer 'head'"; failed allocations
// become kMemory, all else kInternal with the first line of its message. part: the action itself,
// or the half of an overlapped pair that ran. of_user: what of the model ran, "" where nothing did.
Error describe_instruction_failure(int rank, int index, const Action& action, const Action& part,
                                   std::int64_t step, const std::string& of_user);

}  // namespace sluice
