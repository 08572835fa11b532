// Builds and pads the rows of a batch. Padding has id 0 and label -100, and forms its own document
// if there are positions. Its mask is 1, which is harmless because no earlier token sees it, or 0
// with masks_padding. Fields are padded with 0.
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
