// at::linear and at::embedding with weights divided among tensor-parallel ranks. Each rank holds
// slices of a weight.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// enter() returns the whole input for each of this rank's slices, and gathers rows if ranks divide
// them. leave() sums the results of all slices.
std::vector<at::Tensor> enter(const at::Tensor& x, const SliceGroup& tp);
at::Tensor leave(const std::vector<at::Tensor>& parts, const SliceGroup& tp);

// Returns this rank's slices of a weight divided along `dim`, or the weight if there is one slice.
// sections: lengths in the whole weight, such as those of q, k and v.
std::vector<at::Tensor> weight_slices(const at::Tensor& own, std::int64_t dim,
                                      const std::vector<std::int64_t>& sections,
                                      const SliceGroup& tp);

std::vector<at::Tensor> products(const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& weights,
                                 const std::vector<at::Tensor>& biases);
// Concatenates slices along `dim`. Each slice's gradient gets the layout of an undivided tensor.
at::Tensor concatenated(const std::vector<at::Tensor>& parts, std::int64_t dim);
// Multiplies each input with its weight. LibTorch selects kernels by strides, so weights get the
// same layout on all ranks. is_transposed: weights are [in, out].
std::vector<at::Tensor> products_with_fixed_layout(const std::vector<at::Tensor>& inputs,
                                                   const std::vector<at::Tensor>& weights,
                                                   bool is_transposed = false);
// A weight divided along its input dimension `dim`, which has `length` elements in the whole
// weight.
struct InputDivided {
  const at::Tensor& weight;
  std::int64_t dim = 1, length = 0;
};
// Sums the products over all slices and ranks. A defined bias is added once.
at::Tensor sum_of_products(const std::vector<at::Tensor>& inputs, const InputDivided& divided,
                           const at::Tensor& bias, const SliceGroup& tp);
// Concatenates the slices' output columns, section by section.
at::Tensor side_by_side(const std::vector<at::Tensor>& parts,
                        const std::vector<std::int64_t>& sections, const SliceGroup& tp);

// Looks up ids in this rank's slices of a table with num_rows rows in all. Throws Error(kInput) on
// the CPU for an id outside of the table. padding_idx: -1 for none.
at::Tensor divided_embedding(const at::Tensor& own, const at::Tensor& ids, std::int64_t num_rows,
                             std::int64_t padding_idx, const SliceGroup& tp);

}  // namespace sluice::detail
