#include "run/step_losses.h"

#include <ATen/Functions.h>

#include <numeric>

namespace sluice {

void StepLosses::begin_step(const std::vector<std::int64_t>& counts) {
  clear();
  counted_tokens_ = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  sums_.resize(counts.size());
}

void StepLosses::put(int microbatch, at::Tensor sum, std::int64_t count) {
  sums_[static_cast<std::size_t>(microbatch)] = {std::move(sum), count};
  values_.clear();
}

at::Tensor StepLosses::gradient(int microbatch) const {
  const auto& [sum, count] = sums_[static_cast<std::size_t>(microbatch)];
  const double own = count > 0 ? 1.0 / static_cast<double>(count) : 0.0;
  double scale = own;
  switch (scale_) {
    case GradientScale::kTokens:
      scale = counted_tokens_ > 0 ? 1.0 / static_cast<double>(counted_tokens_) : 0.0;
      break;
    case GradientScale::kMicrobatches:
      scale = own / static_cast<double>(sums_.size());
      break;
    case GradientScale::kNone:
      break;
    case GradientScale::kDivisor:
      scale = own / divisor_;
      break;
  }
  return at::full_like(sum, scale);
}

const std::vector<MicrobatchLoss>& StepLosses::values() {
  if (values_.empty()) {
    for (std::size_t m = 0; m < sums_.size(); ++m) {
      const auto& [sum, count] = sums_[m];
      if (sum.defined())
        values_.push_back({static_cast<std::int64_t>(m), sum.item<double>(), count});
    }
  }
  return values_;
}

void StepLosses::clear() {
  sums_.clear();
  values_.clear();
}

}  // namespace sluice
