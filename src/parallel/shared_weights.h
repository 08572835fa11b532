// Operators on rows with a weight that all rows share: norms, biases behind a sum, learned
// positions.
//
// Forward: the operator, on all rows that are here. Backward: the weight's gradient is the sum over
// rows of each slice by itself, then the tree over slices: those of this rank and of the others
// with sequence parallelism, all of them here without. So both have the same bits, and one slice
// those of the plain operator.
//
// Dropout of rows is there, too: each slice draws for its rows by itself.
//
// Does not own: how such weights are drawn, saved and updated: they are whole on each rank.
// Thread-safety: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// Rows lie along tp.sequence_dim() of x. Throws Error(kUsage) where this is no dimension before
// those of the weight, or rows here are not even for the slices.
// x + bias, in place of x or not, and x * weight: the weight has the last dimension of x.
at::Tensor add_shared(const at::Tensor& x, const at::Tensor& bias, const SliceGroup& tp,
                      bool in_place = false);
at::Tensor multiply_shared(const at::Tensor& x, const at::Tensor& weight, const SliceGroup& tp);
// x += bias, in place, of which this rank has its columns: the gradient of each own slice is a sum
// of its own. length: of all columns, which x has if it is gathered, else those of this rank.
at::Tensor add_columns_(const at::Tensor& x, const at::Tensor& bias, std::int64_t length,
                        bool gathered, const SliceGroup& tp);
// Rows of a table, ids [B, L] of all rows; the result has the rows of this rank.
at::Tensor embedding_shared(const at::Tensor& table, const at::Tensor& ids, const SliceGroup& tp);
// The factors of dropout, 0 or 1 / (1 - probability), for x: each slice draws those of its part by
// itself. sizes: of the slices that are here, along dim, the first of which is first_slice.
at::Tensor dropout_mask(const at::Tensor& x, double probability, std::int64_t dim,
                        const std::vector<std::int64_t>& sizes, std::int64_t first_slice);
// The same where slices have rows.
at::Tensor dropout_mask_of_rows(const at::Tensor& x, double probability, const SliceGroup& tp);
// at::dropout of training by such factors.
at::Tensor dropout_rows(const at::Tensor& x, double probability, const SliceGroup& tp);
// weight and bias may be undefined.
at::Tensor layer_norm_shared(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& weight,
                             const at::Tensor& bias, double eps, const SliceGroup& tp);
at::Tensor rms_norm_shared(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& weight,
                           std::optional<double> eps, const SliceGroup& tp);

}  // namespace sluice::detail
