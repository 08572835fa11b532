// Builds and pads the rows of a batch.
//
// Padding has id 0 and label -100. Its mask is 1, which is harmless because no earlier token sees
// it, or 0 if masks_padding is set. If the batch has positions, the padding forms its own document.
// Fields with one element per token are padded with 0.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sequence_source.h"
#include "sluice/data.h"

namespace sluice::data {

class BatchRows {
 public:
  BatchRows(std::int64_t num_rows, const TokenDataOptions& options);
  // Precondition: 0 <= row < num_rows; each row is set once with at most seq_len tokens.
  void set(std::int64_t row, const Sequence& sequence);
  TokenRows take() { return std::move(rows_); }

 private:
  void set_tokens(std::int64_t row, const Sequence& sequence);

  TokenRows rows_;
  bool masks_padding_;
};

}  // namespace sluice::data
