// How long a step takes once a run is under way.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

class StepTimesSeen {
 public:
  void add(double seconds);
  // Of the last steps, but for the first of the run, which makes what later ones find made. None:
  // there was no other.
  std::optional<double> median() const;
  std::int64_t num_counted() const;

 private:
  bool skipped_first_ = false;
  std::size_t next_ = 0;
  std::vector<double> seconds_;  // the last ones, in a ring
};

}  // namespace sluice
