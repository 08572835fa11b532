// Rejects training steps in which no label counts for the loss.
#pragma once

#include <cstdint>
#include <string>

#include "data/data_entries.h"

namespace sluice::data {

// Sequences from `end` on do not count.
void require_counted_labels(const DataEntries& entries, std::int64_t steps, std::int64_t batch_size,
                            const StepsDone& done, std::int64_t end);

[[noreturn]] void refuse_uncounted_file(const std::string& file);
// Throws Error(kInput) that names the step and its rows.
[[noreturn]] void refuse_uncounted(const DataEntries& entries, std::int64_t step,
                                   DataPosition position, std::int64_t batch_size);

}  // namespace sluice::data
