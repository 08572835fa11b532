// Operators with a whole weight that all rows share: norms, biases after a sum, learned positions.
//
// The forward is the plain operator on this rank's rows. In the backward, the weight's gradient is
// summed over the rows of each slice, then in the tree over all slices, on other ranks too with
// sequence parallelism. The bits are the same with and without it. With one slice they are the
// plain operator's. Each slice also draws its own dropout.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// x + bias or x * weight, where the weight has the last dimension of x. Rows are along
// tp.sequence_dim(). Throws Error(kUsage) if that dimension is not before the weight's, or slices
// do not divide the rows evenly.
at::Tensor add_shared(const at::Tensor& x, const at::Tensor& bias, const SliceGroup& tp,
                      bool in_place = false);
at::Tensor multiply_shared(const at::Tensor& x, const at::Tensor& weight, const SliceGroup& tp);
// Adds the bias of divided columns to x in place, with one gradient sum per slice. length: of all
// columns. x has all columns if gathered, otherwise this rank's.
at::Tensor add_columns_(const at::Tensor& x, const at::Tensor& bias, std::int64_t length,
                        bool gathered, const SliceGroup& tp);
// Looks up ids [B, L] of all rows and returns this rank's rows.
at::Tensor embedding_shared(const at::Tensor& table, const at::Tensor& ids, const SliceGroup& tp);
// Returns dropout factors for x, 0 or 1 / (1 - probability), drawn separately for each slice.
// sizes: of the slices along dim, from first_slice on.
at::Tensor dropout_mask(const at::Tensor& x, double probability, std::int64_t dim,
                        const std::vector<std::int64_t>& sizes, std::int64_t first_slice);
// Returns dropout factors for slices of rows.
at::Tensor dropout_mask_of_rows(const at::Tensor& x, double probability, const SliceGroup& tp);
// Applies dropout by slices of rows.
at::Tensor dropout_rows(const at::Tensor& x, double probability, const SliceGroup& tp);
// weight and bias may be undefined.
at::Tensor layer_norm_shared(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& weight,
                             const at::Tensor& bias, double eps, const SliceGroup& tp);
at::Tensor rms_norm_shared(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& weight,
                           std::optional<double> eps, const SliceGroup& tp);

}  // namespace sluice::detail
