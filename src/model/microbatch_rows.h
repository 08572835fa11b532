// The rows of one microbatch as tensors.
//
// Owns: their common length, and the check for masks and positions of their own.
// Does not own: the rows, which outlive it; the choice of tensors that a model takes.
// Thread-safety: a value, whose functions are pure.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sluice/data.h"

namespace sluice::detail {

class MicrobatchRows {
 public:
  // Rows [first, first + count), as long as the longest of them.
  MicrobatchRows(const TokenRows& rows, std::int64_t first, std::int64_t count);

  std::int64_t count() const { return count_; }
  std::int64_t length() const { return length_; }

  // int64 [count, length]. values: ids, labels, attention_mask or position_ids of the rows.
  template <typename T>
  at::Tensor tensor(const std::vector<T>& values) const {
    at::Tensor result = empty_tokens();
    auto* to = result.mutable_data_ptr<std::int64_t>();
    for (std::int64_t row = first_; row < first_ + count_; ++row)
      to = std::copy_n(values.begin() + row * rows_.seq_len, length_, to);
    return result;
  }

  bool has_mask() const;       // a token of them is hidden
  bool has_positions() const;  // one is not at its place in the row

  // [count, sizes..] in the type of the numbers, or [items of all rows, sizes..] of a concatenated
  // field. Sizes that are kRowTokens are length(). Throws
  // Error(kInput) for rows of different sizes.
  at::Tensor field(const FieldRows& field) const;

 private:
  at::Tensor empty_tokens() const;

  const TokenRows& rows_;
  std::int64_t first_, count_, length_;
};

}  // namespace sluice::detail
