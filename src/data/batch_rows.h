// Builds and pads the rows of a batch. Padding tokens have id 0 and label -100, and padded fields
// hold zeros. If rows have position ids, the padding is a separate document. The attention mask of
// padding is 0 with masks_padding, otherwise 1. A mask of 1 is harmless, because attention is
// causal and padding comes last.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sequence_source.h"
#include "sluice/data.h"

namespace sluice::data {

class BatchRows {
 public:
  BatchRows(std::int64_t num_rows, const TokenDataOptions& options);
  // Call once per row, with at most seq_len tokens. Precondition: 0 <= row < num_rows.
  void set(std::int64_t row, const Sequence& sequence);
  TokenRows take() { return std::move(rows_); }

 private:
  void set_tokens(std::int64_t row, const Sequence& sequence);

  TokenRows rows_;
  bool masks_padding_;
};

}  // namespace sluice::data
