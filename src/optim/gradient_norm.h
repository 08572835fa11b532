// The global norm of the gradients, with the same bits for every layout.
//
// It sums the elements of each gradient, then the parameters' norms in layer order, both in a fixed
// order and in double. Orders other than 1, 2 and infinity divide by the largest element first. A
// float32 gradient therefore cannot overflow: only an element that is not finite makes the norm not
// finite.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

// Elements of a partial sum, and of a block that one rank owns. The number keeps a block in the
// cache and leaves enough blocks for threads.
inline constexpr std::int64_t kGradientBlock = 16384;

// (sum |x|^p)^(1/p), or max |x| for p = infinity; p > 0. Float32 and float64 tensors on the CPU are
// summed in fixed blocks, independent of alignment and threads. LibTorch sums all others.
double tensor_norm(const at::Tensor& tensor, double p = 2.0);

// The sum of squares of each block of a flat float32 or float64 tensor. On the CPU,
// norm_of_blocks() of a gradient's blocks in order has the same bits as tensor_norm(), if the
// blocks begin at multiples of kGradientBlock.
std::vector<double> block_squares(const at::Tensor& flat);
using SquaresOf = std::function<std::vector<double>(const at::Tensor& flat)>;

// Calls `take` with block_squares(), so that the host waits for a device only once. If a tensor is
// on a device, `take` is called twice and must pass the same tensors. The first call gets zeros.
void take_squares(const std::function<void(const SquaresOf&)>& take);

double norm_of_blocks(std::span<const double> squares);

// Combines the norms of pieces, by pairwise summation in the given order.
double combine_norms(std::span<const double> norms, double p = 2.0);

// The factor that limits a norm to max_norm, as in torch.nn.utils.clip_grad_norm_: max_norm / (norm
// + 1e-6), at most 1. Without clipping (0) it is 1.
double clip_coefficient(double norm, double max_norm);

}  // namespace sluice
