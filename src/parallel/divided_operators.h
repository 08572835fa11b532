// at::linear and at::embedding of weights that are divided: what the layers and the tables of
// parallelize_module have in common.
// Thread-safety: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// A whole input, or its rows of this rank, for each own slice; and the sum of what each computed.
std::vector<at::Tensor> enter(const at::Tensor& x, const SliceGroup& tp);
at::Tensor leave(const std::vector<at::Tensor>& parts, const SliceGroup& tp);

// The own slices of a weight that is divided along `dim`, section by section; lengths of the
// sections in the whole. Of one slice: the weight.
std::vector<at::Tensor> weight_slices(const at::Tensor& own, std::int64_t dim,
                                      const std::vector<std::int64_t>& sections,
                                      const SliceGroup& tp);

// A product for each own slice. biases: empty, or of each slice.
std::vector<at::Tensor> products(const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& weights,
                                 const std::vector<at::Tensor>& biases);
// The results of slices, one behind the other along dim. Each gets its gradient in the layout that
// it would have alone, since LibTorch's numbers may depend on strides. One part: as it is.
at::Tensor concatenated(const std::vector<at::Tensor>& parts, std::int64_t dim);
// products() of weights that need not be contiguous: each in memory of the same layout, on however
// many ranks, since LibTorch chooses its products by strides. is_transposed: weights are [in, out].
std::vector<at::Tensor> products_alike(const std::vector<at::Tensor>& inputs,
                                       const std::vector<at::Tensor>& weights,
                                       bool is_transposed = false);
// A weight whose inputs are divided: their dimension in it, and how many there are in the whole.
struct InputDivided {
  const at::Tensor& weight;
  std::int64_t dim = 1, length = 0;
};
// The sum of the products of all slices' inputs; bias, where it is defined, is added once.
at::Tensor sum_of_products(const std::vector<at::Tensor>& inputs, const InputDivided& divided,
                           const at::Tensor& bias, const SliceGroup& tp);
// The results of slices, section by section: the columns of this rank.
at::Tensor side_by_side(const std::vector<at::Tensor>& parts,
                        const std::vector<std::int64_t>& sections, const SliceGroup& tp);

// The rows of a table of num_rows, of which this rank has its slices. Where ids are outside of it:
// Error(kInput), on the CPU. padding_idx: -1 for none.
at::Tensor divided_embedding(const at::Tensor& own, const at::Tensor& ids, std::int64_t num_rows,
                             std::int64_t padding_idx, const SliceGroup& tp);

}  // namespace sluice::detail
