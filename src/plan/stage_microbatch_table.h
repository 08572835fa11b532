// Holds a value for every stage and microbatch.
//
// The table is dense if the program has about as many instructions. Otherwise it keeps only entries
// that were set, so that a short file with large numbers cannot fill the memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "plan/stage_microbatch.h"
#include "sluice/program.h"

namespace sluice::detail {

template <typename Value>
class StageMicrobatchTable {
 public:
  StageMicrobatchTable() = default;
  explicit StageMicrobatchTable(const Program& program)
      : num_stages_(std::max(program.num_stages(), 0)),
        num_microbatches_(std::max(program.num_microbatches, 0)) {
    constexpr std::int64_t kFreeCells = 4096;
    std::int64_t instructions = 0;
    for (const std::vector<Action>& row : program.ranks) {
      instructions += static_cast<std::int64_t>(row.size());
    }
    const std::int64_t cells = num_stages_ * num_microbatches_;
    is_dense_ = cells <= kFreeCells + instructions;
    if (is_dense_) dense_.resize(static_cast<std::size_t>(cells));
  }

  // The reference stays valid. Precondition: `of` is in range.
  Value& at(StageMicrobatch of) { return is_dense_ ? dense_[cell(of)] : sparse_[of]; }
  // Returns a default Value for unset entries and unknown stages.
  const Value& find(StageMicrobatch of) const {
    static const Value nothing;
    if (of.stage < 0 || of.stage >= num_stages_) return nothing;
    if (is_dense_) return dense_[cell(of)];
    const auto found = sparse_.find(of);
    return found == sparse_.end() ? nothing : found->second;
  }

  // Visits entries in ascending order. A sparse table has only entries that were set.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    StageMicrobatch at{0, 0};
    for (const Value& value : dense_) {
      visit(at, value);
      if (++at.microbatch == num_microbatches_) at = {at.stage + 1, 0};
    }
    std::vector<StageMicrobatch> put;
    for (const auto& entry : sparse_) put.push_back(entry.first);
    std::sort(put.begin(), put.end());
    for (const StageMicrobatch of : put) visit(of, sparse_.at(of));
  }

 private:
  std::size_t cell(StageMicrobatch of) const {
    return static_cast<std::size_t>(of.stage * num_microbatches_ + of.microbatch);
  }

  std::int64_t num_stages_ = 0, num_microbatches_ = 0;
  bool is_dense_ = true;
  std::vector<Value> dense_;
  std::unordered_map<StageMicrobatch, Value> sparse_;
};

}  // namespace sluice::detail
