#include "report/run_curves.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

void merge(Curve::Part& part, const Curve::Part& next) {
  part.last = next.last;
  part.end = next.end;
  part.least = std::min(part.least, next.least);
  part.most = std::max(part.most, next.most);
}

void add_to(RankSeconds& sum, const RankSeconds& times) {
  sum.compute += times.compute;
  sum.wait_receive += times.wait_receive;
  sum.wait_send += times.wait_send;
  sum.reduction += times.reduction;
  sum.optimizer += times.optimizer;
  sum.other += times.other;
}

}  // namespace

void Curve::add(std::int64_t step, double value) {
  if (!std::isfinite(value)) return;
  const Part point = {step, step, value, value, value, value};
  if (in_last_ % per_part_ != 0) {
    merge(parts_.back(), point);
    ++in_last_;
    return;
  }
  if (parts_.size() == kMost) {
    for (std::size_t i = 0; i < kMost / 2; ++i) {
      parts_[i] = parts_[2 * i];
      merge(parts_[i], parts_[2 * i + 1]);
    }
    parts_.resize(kMost / 2);
    per_part_ *= 2;
  }
  parts_.push_back(point);
  in_last_ = 1;
}

void RunCurves::add(const StepMetrics& metrics) {
  ++steps;
  tokens += metrics.tokens;
  loss.add(metrics.step, metrics.loss);
  grad_norm.add(metrics.step, metrics.grad_norm);
  lr.add(metrics.step, metrics.lr);
  if (metrics.step_seconds > 0) tokens_per_second.add(metrics.step, metrics.tokens_per_second());
  if (metrics.validation_loss) validation_loss.add(metrics.step, *metrics.validation_loss);
  if (!metrics.continuations.empty()) {
    continued_at = metrics.step;
    continuations = metrics.continuations;
  }
  // The first step includes one-time setup, so discard it once there is a second.
  if (steps == 2) {
    seconds.assign(seconds.size(), {});
    step_seconds = bubble = 0;
    counted = 0;
  }
  seconds.resize(std::max(seconds.size(), metrics.rank_seconds.size()));
  for (std::size_t rank = 0; rank < metrics.rank_seconds.size(); ++rank)
    add_to(seconds[rank], metrics.rank_seconds[rank]);
  step_seconds += metrics.step_seconds;
  bubble += metrics.bubble_fraction;
  ++counted;
  step_times.add(metrics.step_seconds);
  peaks.resize(std::max(peaks.size(), metrics.memory_bytes.size()));
  for (std::size_t rank = 0; rank < metrics.memory_bytes.size(); ++rank)
    peaks[rank] = std::max(peaks[rank], metrics.memory_bytes[rank]);
  last = metrics;
  last.parameter_norms.reset();
}

}  // namespace sluice
