// Sequences of any length as the rows of a batch.
//
// Owns: padding: id 0, label -100, a document of its own where positions are given, mask 1 (behind
// the last token, so that none sees it) or 0, as is asked, 0 in fields that are as long as the
// tokens.
// Does not own: the choice of sequences (data_entries.h). Thread-safety: a value.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sequence_source.h"
#include "sluice/data.h"

namespace sluice::data {

class BatchRows {
 public:
  // `options` decide the form of the rows, and must outlive this.
  BatchRows(std::int64_t num_rows, const TokenDataOptions& options);
  // Each row once. Precondition: 0 <= row < num_rows; the sequence has at most seq_len tokens.
  void set(std::int64_t row, const Sequence& sequence);
  TokenRows take() { return std::move(rows_); }

 private:
  void set_tokens(std::int64_t row, const Sequence& sequence);

  TokenRows rows_;
  bool masks_padding_;
};

}  // namespace sluice::data
