// Operators whose weight is whole on each rank and used by all rows: norms, biases after a sum,
// learned positions.
//
// The forward is the plain operator on this rank's rows. In the backward, the weight's gradient is
// summed over the rows of each slice, then over all slices as a tree. The bits are the same with
// and without sequence parallelism, and with one slice equal those of the plain operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// Returns x + bias or x * weight, where the weight has the last dimension of x. Rows are along
// tp.sequence_dim(). Throws Error(kUsage) if that dimension is not before the weight's, or slices
// do not divide the rows evenly.
at::Tensor add_shared(const at::Tensor& x, const at::Tensor& bias, const SliceGroup& tp,
                      bool in_place = false);
at::Tensor multiply_shared(const at::Tensor& x, const at::Tensor& weight, const SliceGroup& tp);
// Adds a bias with divided columns to x in place. length: columns on all ranks. x has all columns
// if `gathered`, otherwise this rank's.
at::Tensor add_columns_(const at::Tensor& x, const at::Tensor& bias, std::int64_t length,
                        bool gathered, const SliceGroup& tp);
// Looks up this rank's rows of ids [B, L], which has all ranks' rows.
at::Tensor embedding_shared(const at::Tensor& table, const at::Tensor& ids, const SliceGroup& tp);
// Returns dropout factors for x, 0 or 1 / (1 - probability), drawn separately for each slice.
// sizes: of the slices along `dim`, starting with first_slice.
at::Tensor dropout_mask(const at::Tensor& x, double probability, std::int64_t dim,
                        const std::vector<std::int64_t>& sizes, std::int64_t first_slice);
// Dropout, drawn separately for each slice of rows: as factors, or applied to x.
at::Tensor dropout_mask_of_rows(const at::Tensor& x, double probability, const SliceGroup& tp);
at::Tensor dropout_rows(const at::Tensor& x, double probability, const SliceGroup& tp);
// `weight` and `bias` of a norm may be undefined.
at::Tensor layer_norm_shared(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& weight,
                             const at::Tensor& bias, double eps, const SliceGroup& tp);
at::Tensor rms_norm_shared(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& weight,
                           std::optional<double> eps, const SliceGroup& tp);

}  // namespace sluice::detail
