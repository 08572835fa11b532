#include "ops/norm.h"

#include <vector>

#include "ops/kernels/kernels.h"
#include "ops/parallel_rows.h"

namespace sluice::ops {

void norm(const NormWeights& w, std::int64_t rows, ConstRows x, Rows y, float* statistics) {
  const std::int64_t width = w.width();
  const auto* weight = w.weight.const_data_ptr<float>();
  const auto eps = static_cast<float>(w.eps);
  for_rows(rows, [&](std::int64_t begin, std::int64_t end) {
    const float* from = x.data + begin * x.stride;
    float* to = y.data + begin * y.stride;
    if (w.kind == NormWeights::Kind::kRms) {
      kernels().rms_norm(end - begin, width, from, x.stride, weight, w.offset, eps, to, y.stride,
                         statistics + begin);
    } else {
      kernels().layer_norm(end - begin, width, from, weight, w.bias.const_data_ptr<float>(), eps,
                           to, statistics + rows + begin, statistics + begin);
    }
  });
}

void norm_gradient(const NormWeights& w, std::int64_t rows, ConstRows dy, ConstRows x,
                   const float* statistics, const float* residual, Rows dx,
                   float* weight_gradients) {
  const std::int64_t width = w.width();
  const auto* weight = w.weight.const_data_ptr<float>();
  const auto run = [&](std::int64_t begin, std::int64_t end, float* sums) {
    const std::int64_t count = end - begin;
    const float* more = residual ? residual + begin * dx.stride : nullptr;
    const float* from = dy.data + begin * dy.stride;
    const float* at = x.data + begin * x.stride;
    float* to = dx.data + begin * dx.stride;
    if (w.kind == NormWeights::Kind::kRms) {
      kernels().rms_norm_gradient(count, width, from, dy.stride, at, x.stride, statistics + begin,
                                  weight, w.offset, more, to, dx.stride, sums);
    } else {
      kernels().layer_norm_gradient(count, width, from, at, statistics + rows + begin,
                                    statistics + begin, weight, more, to, sums,
                                    sums ? sums + width : nullptr);
    }
  };
  if (weight_gradients) {
    for_rows_with_sums(rows, w.weight_floats(), weight_gradients, run);
  } else {
    for_rows(rows, [&](std::int64_t begin, std::int64_t end) { run(begin, end, nullptr); });
  }
}

}  // namespace sluice::ops
