// The global norm of the gradients: the same bits for every layout.
//
// Two levels, both of a fixed shape: elements of one gradient, then the norms of all parameters in
// layer order. Sums are in double, and orders other than 1, 2 and infinity divide by the largest
// element first, so a float32 gradient cannot overflow them: a norm is not finite only if an
// element is not. Thread-safety: pure functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

// Elements of a partial sum, in the order of memory: what a gradient is divided by when several
// ranks own it. Any fixed number would do; this one keeps a block in the cache and leaves enough
// blocks to share between threads.
inline constexpr std::int64_t kGradientBlock = 16384;

// (sum |x|^p)^(1/p), or max |x| for p = infinity; p > 0. Float32 and float64 tensors on the CPU are
// summed in blocks of a fixed size whatever alignment and threads are; others by LibTorch.
double tensor_norm(const at::Tensor& tensor, double p = 2.0);

// The sum of the squares of each block of a flat float32 or float64 tensor. Where the blocks of a
// gradient begin at multiples of kGradientBlock, norm_of_blocks() of all of them in order is its
// tensor_norm(): the same bits, on the CPU.
std::vector<double> block_squares(const at::Tensor& flat);
using SquaresOf = std::function<std::vector<double>(const at::Tensor& flat)>;

// Calls `take` with block_squares(), so that the host waits for a device once, whatever is taken:
// where some tensor is on one, `take` is called twice, and its first call sees zeros. It asks for
// the same tensors each time.
void take_squares(const std::function<void(const SquaresOf&)>& take);

double norm_of_blocks(std::span<const double> squares);

// The norm of a vector whose pieces have these norms, by pairwise summation in the given order.
double combine_norms(std::span<const double> norms, double p = 2.0);

// The factor of gradients with which their norm is at most max_norm: as
// torch.nn.utils.clip_grad_norm_, max_norm / (norm + 1e-6), at most 1; without clipping (0) it
// is 1.
double clip_coefficient(double norm, double max_norm);

}  // namespace sluice
