// at::linear and at::embedding with divided weights, for parallel layers and parallelize_module.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// enter() gives each own slice the whole input, gathering rows if needed. leave() sums the slices'
// results.
std::vector<at::Tensor> enter(const at::Tensor& x, const SliceGroup& tp);
at::Tensor leave(const std::vector<at::Tensor>& parts, const SliceGroup& tp);

// Returns the own slices of a weight divided along `dim`, or the weight if there is one slice.
// sections: lengths in the whole weight.
std::vector<at::Tensor> weight_slices(const at::Tensor& own, std::int64_t dim,
                                      const std::vector<std::int64_t>& sections,
                                      const SliceGroup& tp);

std::vector<at::Tensor> products(const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& weights,
                                 const std::vector<at::Tensor>& biases);
// Concatenates slices along dim. Each slice's gradient gets a lone slice's layout, because
// LibTorch's numbers may depend on strides.
at::Tensor concatenated(const std::vector<at::Tensor>& parts, std::int64_t dim);
// products() for weights that may be non-contiguous. LibTorch selects kernels by strides, so
// weights get the same layout on all ranks. is_transposed: weights are [in, out].
std::vector<at::Tensor> products_with_fixed_layout(const std::vector<at::Tensor>& inputs,
                                                   const std::vector<at::Tensor>& weights,
                                                   bool is_transposed = false);
// A weight divided along its inputs. dim: this dimension. length: its whole length.
struct InputDivided {
  const at::Tensor& weight;
  std::int64_t dim = 1, length = 0;
};
// Sums the products over all slices. A defined bias is added once.
at::Tensor sum_of_products(const std::vector<at::Tensor>& inputs, const InputDivided& divided,
                           const at::Tensor& bias, const SliceGroup& tp);
// Concatenates the slices' results by section.
at::Tensor side_by_side(const std::vector<at::Tensor>& parts,
                        const std::vector<std::int64_t>& sections, const SliceGroup& tp);

// Looks up rows in this rank's slices of a table. Throws Error(kInput) on the CPU for an id outside
// of the table. padding_idx: -1 for none.
at::Tensor divided_embedding(const at::Tensor& own, const at::Tensor& ids, std::int64_t num_rows,
                             std::int64_t padding_idx, const SliceGroup& tp);

}  // namespace sluice::detail
