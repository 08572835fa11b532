// Converts exceptions of ranks to Error. Call these functions only while an exception is handled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sluice/error.h"
#include "sluice/parts/action.h"

namespace sluice {

// Returns "out of memory: 1.50GiB could not be allocated" for an allocator's exception.
std::optional<std::string> out_of_memory_text();

// Like as_error(), but also for LibTorch's exceptions. A failed allocation becomes kMemory with
// kOutOfMemoryRemedy. Other LibTorch errors keep their first line, without the backtrace.
Error caught_error(const std::string& place = {});

// Returns caught_error() with a place: "rank 2, instruction 17 '1B3' (stage 1, microbatch 3), step
// 5, layer 'head'". part: the action or half of an overlapped pair that ran. of_user: the part of
// the model that ran, or "".
Error describe_instruction_failure(int rank, int index, const Action& action, const Action& part,
                                   std::int64_t step, const std::string& of_user);

// Rethrows. An allocation failure becomes Error(kMemory) at `place`, such as "rank 1 (stages 1, 2),
// loading the weights".
[[noreturn]] void rethrow_with_place(const std::string& place, const std::string& remedy);

inline constexpr const char* kOutOfMemoryRemedy =
    "use more stages, a smaller `microbatch_size` or `seq_len`, or a schedule with fewer live "
    "activations";

}  // namespace sluice
