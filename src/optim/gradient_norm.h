// The global norm of the gradients, with the same bits for every layout.
//
// Sums the elements of each gradient, then the parameters' norms in layer order, in a fixed order
// and in double. Orders other than 1, 2 and infinity divide by the largest element first. A float32
// gradient therefore cannot overflow. Its norm is finite unless an element is not.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

// Elements of a partial sum, and of a block that one rank owns. Blocks fit the cache and are enough
// for threads.
inline constexpr std::int64_t kGradientBlock = 16384;

// (sum |x|^p)^(1/p), or max |x| for p = infinity. p > 0. Float32 and float64 tensors on the CPU are
// summed in fixed blocks, independent of alignment and threads. LibTorch sums all others.
double tensor_norm(const at::Tensor& tensor, double p = 2.0);

// Returns the sum of squares of each block of a flat float32 or float64 tensor. On the CPU,
// norm_of_blocks() of all blocks in order has the same bits as tensor_norm(), if blocks begin at
// multiples of kGradientBlock.
std::vector<double> block_squares(const at::Tensor& flat);
using SquaresOf = std::function<std::vector<double>(const at::Tensor& flat)>;

// Calls `take` with block_squares(), so that the host waits for a device only once. With tensors on
// a device, calls `take` twice, first with zeros. `take` must pass the same tensors.
void take_squares(const std::function<void(const SquaresOf&)>& take);

double norm_of_blocks(std::span<const double> squares);

// Combines norms of pieces by pairwise summation in the given order.
double combine_norms(std::span<const double> norms, double p = 2.0);

// Returns the factor that limits a norm to max_norm, as in torch.nn.utils.clip_grad_norm_: max_norm
// / (norm + 1e-6), at most 1. Without clipping (0) it is 1.
double clip_coefficient(double norm, double max_norm);

}  // namespace sluice
