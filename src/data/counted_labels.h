// Steps that would have nothing to learn: none of their labels is counted.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "data/data_entries.h"

namespace sluice::data {

// The checks of TokenData::require_counted_labels.
void require_counted_labels(const DataEntries& entries, std::int64_t steps, std::int64_t batch_size,
                            const StepsDone& done);

// Throws Error(kInput) for a file without a counted label.
[[noreturn]] void refuse_uncounted_file(const std::string& file);
// Throws Error(kInput) with the step and its rows, which start at `position`.
[[noreturn]] void refuse_uncounted(const DataEntries& entries, std::int64_t step,
                                   DataPosition position, std::int64_t batch_size);

}  // namespace sluice::data
