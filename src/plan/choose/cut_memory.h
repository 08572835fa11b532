// Predicts peak memory for many cuts under one schedule. Caches the memory per rank, because it
// depends only on the rank's stages. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/choose/question.h"

namespace sluice::detail {

class CutMemory {
 public:
  // Keeps references to all arguments.
  CutMemory(const Question& question, const Cutting& cutting, const Schedule& schedule);

  // Peak bytes of the largest rank. Stops at the first rank that needs `enough` bytes, so such a
  // result is only a lower bound.
  std::int64_t peak(const std::vector<int>& starts, std::int64_t enough);

 private:
  using Stages = std::vector<int>;  // first layer and next stage's first layer, per stage

  void lower_rows(const std::vector<int>& starts, const std::vector<StageBackward>& backwards);
  std::int64_t peak_of_rank(const std::vector<int>& starts, int rank);
  Stages stages_of(const std::vector<int>& starts, int rank) const;

  const Question& question_;
  const Cutting& cutting_;
  const Schedule& schedule_;
  const bool has_frozen_;
  Program rows_;
  std::vector<StageBackward> backwards_;               // the backwards for which rows_ was made
  std::vector<std::map<Stages, std::int64_t>> known_;  // cached bytes, [rank]
  int largest_ = 0;  // largest rank of the previous cut; tried first
};

}  // namespace sluice::detail
