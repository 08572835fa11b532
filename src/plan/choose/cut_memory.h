// Predicts peak memory for many cuts of a model under one schedule. Caches each rank's memory,
// which depends only on its stages. Not thread-safe.
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

  // `starts` holds the first layer of every stage. Returns the peak bytes of the rank that needs
  // most, or a lower bound once a rank needs `enough` bytes.
  std::int64_t peak(const std::vector<int>& starts, std::int64_t enough);

 private:
  using Stages = std::vector<int>;  // per stage of a rank: its first layer and the next stage's

  void lower_rows(const std::vector<int>& starts, const std::vector<StageBackward>& backwards);
  std::int64_t peak_of_rank(const std::vector<int>& starts, int rank);
  Stages stages_of(const std::vector<int>& starts, int rank) const;

  const Question& question_;
  const Cutting& cutting_;
  const Schedule& schedule_;
  const bool has_frozen_;
  Program rows_;
  std::vector<StageBackward> backwards_;               // with which rows_ was lowered
  std::vector<std::map<Stages, std::int64_t>> known_;  // cached bytes, [rank]
  int largest_ = 0;  // rank that needed most for the previous cut, so we try it first
};

}  // namespace sluice::detail
