#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sluice/data.h"

namespace sluice::detail {

class MicrobatchRows {
 public:
  // Takes rows [first, first + count), cut to the longest. `rows` must outlive this object.
  MicrobatchRows(const TokenRows& rows, std::int64_t first, std::int64_t count);

  std::int64_t count() const { return count_; }
  std::int64_t length() const { return length_; }

  // int64 [count, length]
  template <typename T>
  at::Tensor tensor(const std::vector<T>& values) const {
    at::Tensor result = empty_tokens();
    auto* to = result.mutable_data_ptr<std::int64_t>();
    for (std::int64_t row = first_; row < first_ + count_; ++row)
      to = std::copy_n(values.begin() + row * rows_.seq_len, length_, to);
    return result;
  }

  bool has_mask() const;       // whether a token is masked
  bool has_positions() const;  // whether a position differs from the token's index

  // Returns [count, sizes..], or [items of all rows, sizes..] for a concatenated field. A size
  // kRowTokens becomes length(). Throws Error(kInput) if the rows' sizes differ.
  at::Tensor field(const FieldRows& field) const;

 private:
  at::Tensor empty_tokens() const;

  const TokenRows& rows_;
  std::int64_t first_, count_, length_;
};

}  // namespace sluice::detail
