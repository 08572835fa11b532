// The memory of the cuts of a model, of one schedule on stages that are placed.
//
// Does not own: the prediction (predict/memory.h), the order of the cuts (partition/cut_order.h).
// A rank's need depends on its own stages alone: ranks that cuts share are predicted once.
// Thread-safety: one object is one thread's.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/choose/question.h"

namespace sluice::detail {

class CutMemory {
 public:
  // Refers to all of them.
  CutMemory(const Question& question, const Cutting& cutting, const Schedule& schedule);

  // The most that a rank needs; at least `enough` stands for all that is more.
  std::int64_t peak(const std::vector<int>& starts, std::int64_t enough);

 private:
  using Stages = std::vector<int>;  // stages of a rank: first and last layer, and backward of each

  void lower_rows(const std::vector<int>& starts, const std::vector<StageBackward>& backwards);
  std::int64_t peak_of_rank(const std::vector<int>& starts, int rank);
  Stages stages_of(const std::vector<int>& starts, int rank) const;

  const Question& question_;
  const Cutting& cutting_;
  const Schedule& schedule_;
  const bool has_frozen_;
  Program rows_;
  std::vector<StageBackward> backwards_;               // backwards of rows_
  std::vector<std::map<Stages, std::int64_t>> known_;  // known needs by rank
  int largest_ = 0;  // rank: the largest of the cut before is looked at first
};

}  // namespace sluice::detail
