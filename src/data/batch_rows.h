// Builds and pads the rows of a batch. Padding tokens have id 0, label -100 and zeros in fields.
// With position ids, the padding is a separate document. Its attention mask is 0 with
// masks_padding, otherwise 1, which is harmless because attention is causal.
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
