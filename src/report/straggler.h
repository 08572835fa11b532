// Ranks that compute slower than they should beside the others: a machine that is hot, throttled or
// shared.
//
// A rank's compute is compared with that of ranks that do alike work (the same layers, as replicas
// and the middle of a pipeline do), by what the plan predicts of each; what a rank does alone, as
// the one with the embedding, is compared with its own share of the ranks' median in the first 20
// steps. So a rank that is slow from the beginning is found where there are at least two others, or
// one, alike; and one that becomes slow, everywhere.
//
// Owns: the judgement. Does not own: measuring (StepTimes::compute_cpu), gathering, the log.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice {

// The computing of a rank in a step.
struct RankWork {
  std::string kind;              // ranks of one kind differ in amount alone
  double amount = 1;             // above 0; in any unit, of its kind
  std::vector<int> stages = {};  // for the warning
};
// The work of every rank of the run, by what its stages hold.
std::vector<RankWork> rank_work(const Plan& plan);

struct Straggler {
  int rank = -1;
  double factor = 1;  // times what it should take
  std::int64_t steps = 0;
};

// "rank 3 (stage 3) computes 1.6 times as long as it should beside the other ranks, for 20 steps;
// .."
std::string straggler_text(const Straggler& straggler, const RankWork& work);

class StragglerWatch {
 public:
  static constexpr double kFactor = 1.3;
  static constexpr std::int64_t kSteps = 20;
  // Seconds of a step: for less than that nobody waits, and small steps vary most.
  static constexpr double kLeastExcess = 1e-3;
  // One observation may be an accident, where several steps are gathered at once.
  static constexpr std::size_t kLeastObservations = 3;

  explicit StragglerWatch(std::vector<RankWork> work) : work_(std::move(work)) {}

  // seconds: of computing, of every rank, over the `steps` steps since the last call. Returns those
  // ranks whose episode begins: for kSteps they were kFactor above their share. It ends when they
  // are no more, and may then begin again.
  std::vector<Straggler> add(const std::vector<double>& seconds, std::int64_t steps);

 private:
  struct Observation {
    std::vector<double> seconds;  // by rank, as gathered
    std::vector<double> ratios;   // by rank: amount-free seconds, times what others took
    std::int64_t steps = 0;
  };
  std::vector<double> normalized(const std::vector<double>& seconds) const;
  void learn();
  std::optional<double> slowdown(std::size_t rank) const;

  std::vector<RankWork> work_;
  std::vector<double> share_;       // usual ratio of each rank to the expectation, once learned
  std::deque<Observation> window_;  // raw until learned
  std::int64_t window_steps_ = 0;
  std::vector<bool> in_episode_;
  bool skipped_first_ = false;  // it warms up
};

}  // namespace sluice
