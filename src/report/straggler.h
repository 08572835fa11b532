// Finds ranks that compute slower than expected, by comparing ranks that do similar work. If there
// are none, as for the rank with the embedding, compares a rank with its first 20 steps. If it was
// slow from the start, it is not found.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice {

struct RankWork {
  std::string kind;   // ranks of equal kind differ only in `amount`
  double amount = 1;  // of work, above 0, in any unit
  std::vector<int> stages = {};
};
std::vector<RankWork> rank_work(const Plan& plan);

struct Straggler {
  int rank = -1;
  double factor = 1;
  std::int64_t steps = 0;
};

std::string straggler_text(const Straggler& straggler, const RankWork& work);

class StragglerWatch {
 public:
  static constexpr double kFactor = 1.3;
  static constexpr std::int64_t kSteps = 20;
  // A slowdown must cost more seconds per step than this, because short steps vary most.
  static constexpr double kLeastExcess = 1e-3;
  // Fewer observations, each of several steps, may be accidents.
  static constexpr std::size_t kLeastObservations = 3;

  explicit StragglerWatch(std::vector<RankWork> work) : work_(std::move(work)) {}

  // `seconds`: compute time per rank in the `steps` steps since the last call. Returns ranks that
  // just became slower than kFactor over kSteps.
  std::vector<Straggler> add(const std::vector<double>& seconds, std::int64_t steps);

 private:
  struct Observation {
    std::vector<double> seconds;
    std::vector<double> ratios;  // [rank]: slowdown relative to the median
    std::int64_t steps = 0;
  };
  std::vector<double> normalized(const std::vector<double>& seconds) const;
  void learn();
  std::optional<double> slowdown(std::size_t rank) const;

  std::vector<RankWork> work_;
  std::vector<double> share_;
  std::deque<Observation> window_;  // ratios are raw until learn()
  std::int64_t window_steps_ = 0;
  std::vector<bool> in_episode_;
  bool skipped_first_ = false;
};

}  // namespace sluice
