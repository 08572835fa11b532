// Exceptions of running ranks, as one Error; allocators that fail, in one short line.
// Thread-safety: pure functions. All are to be called while an exception is handled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sluice/error.h"
#include "sluice/parts/action.h"

namespace sluice {

// "out of memory: 1.50GiB could not be allocated" when an allocator threw it, else nothing.
std::optional<std::string> out_of_memory_fact();

// The same as as_error(), which knows no torch: a failed allocation is kMemory, with
// kOutOfMemoryRemedy, and other errors of LibTorch are their first line, without the backtrace.
Error caught_error(const std::string& place = {});

// caught_error() of an instruction, with its place before: "rank 2, instruction 17 '1B3' (stage 1,
// microbatch 3), step 5, layer 'head'". part: the action itself, or the half of an overlapped pair
// that ran. of_user: what of the model ran, "" where nothing did.
Error describe_instruction_failure(int rank, int index, const Action& action, const Action& part,
                                   std::int64_t step, const std::string& of_user);

// Throws the exception on; what out_of_memory_fact() knows becomes Error(kMemory) at `place`: "rank
// 1 (stages 1, 2), loading the weights".
[[noreturn]] void rethrow_with_place(const std::string& place, const std::string& remedy);

inline constexpr const char* kOutOfMemoryRemedy =
    "use more stages, a smaller `microbatch_size` or `seq_len`, or a schedule with fewer live "
    "activations";

}  // namespace sluice
