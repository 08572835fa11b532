// Allocators that fail, in one short line. Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>

namespace sluice {

// To be called while an exception is handled: "out of memory: 1.50GiB could not be allocated" when
// an allocator threw it, else nothing.
std::optional<std::string> out_of_memory_fact();

// To be called while an exception is handled, and throws it on; what out_of_memory_fact() knows
// becomes Error(kMemory) at `place`: "rank 1 (stages 1, 2), loading the weights".
[[noreturn]] void rethrow_with_place(const std::string& place, const std::string& remedy);

inline constexpr const char* kOutOfMemoryRemedy =
    "use more stages, a smaller training.microbatch_size or training.seq_len, or a schedule with "
    "fewer live activations";

}  // namespace sluice
