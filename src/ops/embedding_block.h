// Looking up rows of a table, as one node that adds the gradients of the rows where they add up.
// CPU, float32. Thread-safety: pure functions; a graph belongs to one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

// ids: int64. table_VD. padding_row takes no gradient; -1: none. Throws c10::IndexError for an id
// outside of the table.
at::Tensor embedding_block(const at::Tensor& ids, const at::Tensor& table_VD,
                           std::int64_t padding_row);

}  // namespace sluice::ops
