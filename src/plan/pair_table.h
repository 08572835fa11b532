// Something for every stage and microbatch of a program.
//
// A complete program has at least one instruction for each stage and microbatch, so a table over
// all pairs is in proportion to it. With fewer instructions, only the pairs that occur are kept: a
// few lines of text that name stage 60000 and microbatch 1000000 must not fill the memory.
//
// Thread-safety: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sluice/program.h"

namespace sluice::detail {

template <typename Value>
class PairTable {
 public:
  PairTable() = default;
  explicit PairTable(const Program& program)
      : num_stages_(std::max(program.num_stages, 0)),
        num_microbatches_(std::max(program.num_microbatches, 0)) {
    constexpr std::int64_t kFreePairs = 4096;
    std::int64_t instructions = 0;
    for (const std::vector<Action>& row : program.ranks) {
      instructions += static_cast<std::int64_t>(row.size());
    }
    const std::int64_t pairs = num_stages_ * num_microbatches_;
    is_dense_ = pairs <= kFreePairs + instructions;
    if (is_dense_) dense_.resize(static_cast<std::size_t>(pairs));
  }

  // Precondition: both in range. The reference stays valid.
  Value& at(int stage, int microbatch) {
    return is_dense_ ? dense_[key(stage, microbatch)] : sparse_[key(stage, microbatch)];
  }
  // A fresh Value where nothing was put, and for a stage that does not exist.
  const Value& find(int stage, int microbatch) const {
    static const Value nothing;
    if (stage < 0 || stage >= num_stages_) return nothing;
    if (is_dense_) return dense_[key(stage, microbatch)];
    const auto found = sparse_.find(key(stage, microbatch));
    return found == sparse_.end() ? nothing : found->second;
  }

  // visit(stage, microbatch, value) in ascending order; of a sparse table, those that were put.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    const auto call = [&](std::uint64_t pair, const Value& value) {
      visit(static_cast<int>(pair / num_microbatches_), static_cast<int>(pair % num_microbatches_),
            value);
    };
    for (std::size_t pair = 0; pair < dense_.size(); ++pair) call(pair, dense_[pair]);
    std::vector<std::uint64_t> pairs;
    for (const auto& entry : sparse_) pairs.push_back(entry.first);
    std::sort(pairs.begin(), pairs.end());
    for (const std::uint64_t pair : pairs) call(pair, sparse_.at(pair));
  }

 private:
  std::uint64_t key(int stage, int microbatch) const {
    return static_cast<std::uint64_t>(stage * num_microbatches_ + microbatch);
  }

  std::int64_t num_stages_ = 0, num_microbatches_ = 0;
  bool is_dense_ = true;
  std::vector<Value> dense_;
  std::unordered_map<std::uint64_t, Value> sparse_;
};

}  // namespace sluice::detail
