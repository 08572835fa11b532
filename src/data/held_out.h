// Holds rows of the training data out for validation (TokenDataOptions::held_out).
#pragma once

#include <memory>
#include <vector>

#include "data/sequence_source.h"

namespace sluice::data {

using Sources = std::vector<std::unique_ptr<SequenceSource>>;

// Returns sources with only the rows of options.part. A row's key is a hash of the seed and the
// row's content. The rows with the smallest keys are held out, so the choice depends on neither
// layout, order nor position. Reads all rows. Throws Error(kUsage) if either part would be empty.
Sources part_of(Sources sources, const TokenDataOptions& options);

}  // namespace sluice::data
