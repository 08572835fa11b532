#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

// Looks up rows of a float32 CPU table by int64 ids. The backward adds to the weight's gradient in
// place. Row `padding_row` gets no gradient (-1: none). Throws c10::IndexError for an id outside of
// the table.
at::Tensor embedding_block(const at::Tensor& ids, const at::Tensor& table_VD,
                           std::int64_t padding_row);

}  // namespace sluice::ops
