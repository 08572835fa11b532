// Which rank has which stage: decided once, by a partition or a schedule, and handed on.
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace sluice {

// Where the stages live.
//   loop: stage s on rank s mod P.
//   v:    ranks 0..P-1, then P-1..0, alternating (with 2 stages a rank: rank r has r and 2P-1-r).
enum class Placement { kLoop, kV };

class StageMap {
 public:
  static constexpr int kNowhere = -1;

  StageMap() = default;  // no ranks, no stages
  // ranks[s]: the rank of stage s, or kNowhere. What is out of range is for verify() to refuse.
  StageMap(int num_ranks, std::vector<int> ranks)
      : num_ranks_(num_ranks), ranks_(std::move(ranks)) {}

  int num_ranks() const { return num_ranks_; }
  int num_stages() const { return static_cast<int>(ranks_.size()); }
  // kNowhere also for a stage that does not exist.
  int rank_of(int stage) const {
    return stage < 0 || stage >= num_stages() ? kNowhere : ranks_[stage];
  }
  std::vector<int> stages_of(int rank) const;  // ascending
  // The most that any rank has.
  int stages_per_rank() const;
  // By stage: what files and configurations call stage_to_rank.
  const std::vector<int>& ranks() const { return ranks_; }
  // Whether it is what make_stage_map() gives.
  bool is(Placement placement) const;

  friend bool operator==(const StageMap&, const StageMap&) = default;

 private:
  int num_ranks_ = 0;
  std::vector<int> ranks_;
};

// Throws Error(kUsage) unless num_stages is a positive multiple of num_ranks.
StageMap make_stage_map(Placement placement, int num_ranks, int num_stages);

}  // namespace sluice
