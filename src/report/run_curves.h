// Curves of a run's metrics, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/metrics.h"
#include "report/step_pace.h"

namespace sluice {

// Beyond kMost parts, merges neighbours and keeps their extremes.
class Curve {
 public:
  static constexpr std::size_t kMost = 1024;
  struct Part {
    std::int64_t first = 0, last = 0;  // steps
    double least = 0, most = 0;
    double begin = 0, end = 0;
  };
  // Steps must ascend. Values that are not finite are ignored.
  void add(std::int64_t step, double value);
  const std::vector<Part>& parts() const { return parts_; }
  bool empty() const { return parts_.empty(); }
  double last() const { return parts_.back().end; }

 private:
  std::vector<Part> parts_;
  std::int64_t per_part_ = 1, in_last_ = 0;
};

class RunCurves {
 public:
  void add(const StepMetrics& metrics);

  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  StepMetrics last;
  Curve loss, validation_loss, tokens_per_second, grad_norm, lr;
  // [rank]: sums over `counted` steps. Omits the first step if there are others.
  std::vector<RankSeconds> seconds;
  double step_seconds = 0, bubble = 0;
  std::int64_t counted = 0;
  std::vector<std::int64_t> peaks;  // [rank]: bytes
  StepTimesSeen step_times;
  std::int64_t continued_at = 0;
  std::vector<std::pair<std::string, std::string>> continuations;
};

}  // namespace sluice
