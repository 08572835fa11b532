#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

// Looks up rows of a table. The backward accumulates into the weight's gradient in place. CPU and
// float32 only. ids are int64; an id outside of the table throws c10::IndexError. Row `padding_row`
// gets no gradient; -1 means that there is no such row.
at::Tensor embedding_block(const at::Tensor& ids, const at::Tensor& table_VD,
                           std::int64_t padding_row);

}  // namespace sluice::ops
