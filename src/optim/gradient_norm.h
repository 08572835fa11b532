// Computes the global gradient norm, with the same bits for every layout.
//
// Sums each gradient's elements, then the parameters' norms in layer order, in double and in a
// fixed order. For orders p other than 1, 2 and infinity, elements are first divided by the largest
// element. A norm of finite float32 elements therefore cannot overflow.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

// Elements per partial sum, and per block that one rank owns. A block fits the cache, and there are
// enough blocks for threads.
inline constexpr std::int64_t kGradientBlock = 16384;

// Returns (sum |x|^p)^(1/p) for p > 0, or max |x| for p = infinity. Float32 and float64 tensors on
// the CPU are summed in fixed blocks, independent of alignment and threads. LibTorch sums all
// others.
double tensor_norm(const at::Tensor& tensor, double p = 2.0);

// Returns the sum of squares of each block of a flat float32 or float64 tensor. On the CPU,
// norm_of_blocks() of the result has the same bits as tensor_norm(), if `flat` begins at a multiple
// of kGradientBlock.
std::vector<double> block_squares(const at::Tensor& flat);
using SquaresOf = std::function<std::vector<double>(const at::Tensor& flat)>;

// Calls `take` with block_squares(), but waits for a GPU only once. With tensors on a GPU, calls
// `take` twice, first with zeros. `take` must pass the same tensors.
void take_squares(const std::function<void(const SquaresOf&)>& take);

double norm_of_blocks(std::span<const double> squares);

// Returns the norm of all pieces. Adds the pieces' norms pairwise in the given order.
double combine_norms(std::span<const double> norms, double p = 2.0);

// Returns the factor that limits a norm to max_norm, as in torch.nn.utils.clip_grad_norm_: max_norm
// / (norm + 1e-6), at most 1. Returns 1 if max_norm is 0 (no clipping).
double clip_coefficient(double norm, double max_norm);

}  // namespace sluice
