#include "engine/step_losses.h"

#include <ATen/Functions.h>

#include <numeric>
#include <string>

#include "base/format.h"
#include "device/transfers.h"
#include "sluice/error.h"

namespace sluice {

void StepLosses::begin_step(const StepBatch& batch) {
  clear();
  scale_ = batch.scale.value_or(usual_scale_);
  const std::vector<std::int64_t>& counts = counts_ = batch.counts;
  first_microbatch_ = batch.first_microbatch;
  counted_tokens_ =
      batch.total_count.value_or(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  for (const std::int64_t count : counts) sums_.push_back({at::Tensor(), count});
}

at::Tensor StepLosses::compute(int microbatch, const Values& outputs, const Values& batch) {
  LossValue value = function_(outputs, batch);
  if (!value.loss.defined() || value.loss.numel() != 1) {
    throw Error(
        ErrorKind::kUsage,
        {.what = "the loss function must return one number",
         .where = value.loss.defined() ? "got " + to_text(meta_of(value.loss)) : "got nothing"});
  }
  std::int64_t& count = sums_[microbatch].count;
  if (scale_.kind == GradientScale::kTokens && value.count != count) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted(
                     "the loss function counted {}, but Model::count (StepBatch::counts) gave {}",
                     value.count, count),
                 .remedy = "give the same count in both: their sum divides the gradients"});
  }
  count = value.count;
  // Do not round the loss before it is divided by the step's count.
  if (at::isReducedFloatingType(value.loss.scalar_type())) return value.loss.to(at::kFloat);
  return std::move(value.loss);
}

void StepLosses::put(int microbatch, at::Tensor sum) {
  sums_[microbatch].loss = std::move(sum);
  values_.clear();
}

at::Tensor StepLosses::gradient(int microbatch) const {
  const auto& [loss, count] = sums_[microbatch];
  const double own = count > 0 ? 1.0 / static_cast<double>(count) : 0.0;
  double scale = own;
  switch (scale_.kind) {
    case GradientScale::kTokens:
      scale = counted_tokens_ > 0 ? 1.0 / static_cast<double>(counted_tokens_) : 0.0;
      break;
    case GradientScale::kMicrobatches:
      scale = own / static_cast<double>(sums_.size() * static_cast<std::size_t>(num_replicas_));
      break;
    case GradientScale::kSumOfMeans:
      break;
    case GradientScale::kDivisor:
      scale = own / scale_.divisor;
      break;
  }
  return at::full_like(loss, scale);
}

double StepLosses::weight(int microbatch) const {
  if (counts_[microbatch] == 0) return 0.0;
  switch (scale_.kind) {
    case GradientScale::kTokens:
      return counted_tokens_ > 0
                 ? static_cast<double>(counts_[microbatch]) / static_cast<double>(counted_tokens_)
                 : 0.0;
    case GradientScale::kMicrobatches:
      return 1.0 / static_cast<double>(counts_.size() * static_cast<std::size_t>(num_replicas_));
    case GradientScale::kDivisor:
      return 1.0 / scale_.divisor;
    default:
      return 1.0;
  }
}

const std::vector<MicrobatchLoss>& StepLosses::values() {
  if (values_.empty()) {
    std::vector<at::Tensor> losses;
    for (std::size_t m = 0; m < sums_.size(); ++m) {
      const auto& [loss, count] = sums_[m];
      if (!loss.defined()) continue;
      losses.push_back(loss);
      values_.push_back({first_microbatch_ + static_cast<std::int64_t>(m), 0.0, count});
    }
    const std::vector<double> numbers = read_numbers(losses);
    for (std::size_t i = 0; i < numbers.size(); ++i) values_[i].sum = numbers[i];
  }
  return values_;
}

void StepLosses::clear() {
  sums_.clear();
  values_.clear();
}

}  // namespace sluice
