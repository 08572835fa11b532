#include "ops/bfloat16_speed.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace sluice::ops {
namespace {

constexpr std::int64_t kRows = 256, kSize = 512;  // sizes typical of a layer
constexpr int kRounds = 6;

double seconds_of(const at::Tensor& a, const at::Tensor& b) {
  const auto begin = std::chrono::steady_clock::now();
  at::mm(a, b);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

double bfloat16_time() {
  const at::NoGradGuard no_graph;
  const at::Tensor a = at::ones({kRows, kSize}), b = at::ones({kSize, kSize});
  const at::Tensor narrow_a = a.to(at::kBFloat16), narrow_b = b.to(at::kBFloat16);
  double wide = std::numeric_limits<double>::infinity(), narrow = wide;
  for (int round = 0; round < kRounds; ++round) {  // the first rounds warm up
    wide = std::min(wide, seconds_of(a, b));
    narrow = std::min(narrow, seconds_of(narrow_a, narrow_b));
  }
  return narrow / wide;
}

}  // namespace sluice::ops
