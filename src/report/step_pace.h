// The time that a step takes once a run is under way, and the time left.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

// Time left from the steps so far. The first step is slower than the others and is left out as soon
// as there is another.
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
  // The median of the last steps. The first of the run makes what later ones find made, and does
  // not count; nothing where there was no other.
  std::optional<double> median() const;
  std::int64_t num_counted() const;

 private:
  bool skipped_first_ = false;
  std::size_t next_ = 0;
  std::vector<double> seconds_;  // the last ones, in a ring
};

}  // namespace sluice
