// Converts a rank's exceptions to Error. Call these functions only in a catch block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sluice/error.h"
#include "sluice/parts/action.h"

namespace sluice {

// If the exception is an allocator's, returns "out of memory: 1.50GiB could not be allocated".
std::optional<std::string> out_of_memory_text();

// Like as_error(), but also converts LibTorch's exceptions. A failed allocation becomes kMemory
// with kOutOfMemoryRemedy. Other LibTorch errors keep their first line, without the backtrace.
Error caught_error(const std::string& place = {});

// Returns caught_error() with the place "rank 2, instruction 17 '1B3' (stage 1, microbatch 3), step
// 5, layer 'head'". part: the action or half of an overlapped pair that failed. of_user: the layer
// or loss that ran, or "".
Error describe_instruction_failure(int rank, int index, const Action& action, const Action& part,
                                   std::int64_t step, const std::string& of_user);

// Rethrows the exception. An allocation failure becomes Error(kMemory) at `place`, such as "rank 1
// (stages 1, 2), loading the weights".
[[noreturn]] void rethrow_with_place(const std::string& place, const std::string& remedy);

inline constexpr const char* kOutOfMemoryRemedy =
    "use more stages, a smaller `microbatch_size` or `seq_len`, or a schedule with fewer live "
    "activations";

}  // namespace sluice
