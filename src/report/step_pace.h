#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

class TimeLeft {
 public:
  void add_step(double seconds);
  std::optional<double> after(std::int64_t step, std::int64_t num_steps) const;

 private:
  std::int64_t steps_ = 0;
  double first_ = 0, rest_ = 0;
};

class StepTimesSeen {
 public:
  void add(double seconds);
  // Omits the run's first step, which includes one-time setup.
  std::optional<double> median() const;
  std::int64_t num_counted() const;

 private:
  bool skipped_first_ = false;
  std::size_t next_ = 0;
  std::vector<double> seconds_;
};

}  // namespace sluice
