// The logged curves of a run, in bounded memory: for the report of a run of any length.
//
// Owns: thinning of curves, sums over the steps. Does not own: the lines (metrics.h), pictures
// (run_report.h). Thread-safety: values.
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

// Values over steps. Neighbours become one part where there are more than kMost: none of the
// largest and smallest values is lost.
class Curve {
 public:
  static constexpr std::size_t kMost = 1024;
  struct Part {
    std::int64_t first = 0, last = 0;  // steps
    double least = 0, most = 0;
    double begin = 0, end = 0;  // the values at the first and the last step
  };
  // Steps ascend. A value that is no number is left out.
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

  std::int64_t steps = 0;   // number of logged steps
  std::int64_t tokens = 0;  // counted tokens of the logged steps
  StepMetrics last;         // without its norms
  Curve loss, validation_loss, tokens_per_second, grad_norm, lr;
  // Per rank: of the logged steps after the first, and how many these are; or of the first alone.
  std::vector<RankSeconds> seconds;
  double step_seconds = 0, bubble = 0;
  std::int64_t counted = 0;
  std::vector<std::int64_t> peaks;  // per rank, bytes
  StepTimesSeen step_times;
  // The newest continuations, and the step after which they were made.
  std::int64_t continued_at = 0;
  std::vector<std::pair<std::string, std::string>> continuations;
};

}  // namespace sluice
