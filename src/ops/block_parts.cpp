#include "ops/block_parts.h"

#include <cstring>

#include "ops/kernels/kernels.h"
#include "ops/parallel_rows.h"
#include "sluice/error.h"

namespace sluice::ops {

void add_result(std::int64_t rows, const LinearWeights& last, ConstRows inner, const float* x,
                float scale, float* y) {
  const std::int64_t hidden = last.out();
  if (x) std::memcpy(y, x, static_cast<std::size_t>(rows * hidden) * sizeof(float));
  linear(rows, last, inner, {y, hidden}, scale, x != nullptr);
}

void add_sum(std::int64_t size, const float* x, float scale, float* y) {
  if (!x) return scale_all(size, scale, y);
  kernels().sum_scaled(size, x, scale, y, y);
}

void give_linear(std::int64_t rows, const LinearWeights& weights, std::size_t index, ConstRows dy,
                 ConstRows x, float scale, WeightGradients& gradients) {
  if (gradients.wants(index)) {
    const WeightGradients::Target target = gradients.begin(index);
    linear_weight_gradient(rows, weights, dy, x, {target.data, weights.weight.size(1)}, scale,
                           target.adds);
  }
  if (gradients.wants(index + 1)) {
    std::vector<float> sums(static_cast<std::size_t>(weights.out()));
    for_rows_with_sums(rows, weights.out(), sums.data(),
                       [&](std::int64_t begin, std::int64_t end, float* of_block) {
                         kernels().add_rows(end - begin, weights.out(), dy.data + begin * dy.stride,
                                            dy.stride, of_block);
                       });
    gradients.give(index + 1, sums.data());
  }
}

void give_norm(const NormWeights& norm, std::size_t index, const float* gradient,
               WeightGradients& gradients) {
  if (gradients.wants(index)) gradients.give(index, gradient);
  if (gradients.wants(index + 1)) gradients.give(index + 1, gradient + norm.width());
}

void require_contiguous(const std::string& node, const at::Tensor& weight) {
  if (!weight.defined() || weight.is_contiguous()) return;
  throw Error(ErrorKind::kUsage,
              {.what = "a weight of " + node + " is not contiguous",
               .where = "fused operators",
               .remedy = "give the layer a contiguous one, or set LayerOptions::fused off"});
}

void scale_all(std::int64_t size, float scale, float* values) {
  if (scale == 1) return;
  for (std::int64_t i = 0; i < size; ++i) values[i] *= scale;
}

}  // namespace sluice::ops
