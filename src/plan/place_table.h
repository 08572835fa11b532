// Where each instruction of a program is: (stage, microbatch, kind) -> index in its rank's row.
//
// Owns: the positions on the rank that owns the stage. Does not own: what they should be (verify).
// Thread-safety: values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/program.h"

namespace sluice::detail {

// Instructions of one stage and microbatch.
struct Places {
  static constexpr std::int32_t kAbsent = -1;
  static constexpr std::int32_t kElsewhere = -2;  // only on a rank that does not own the stage

  std::array<std::int32_t, 8> index{-1, -1, -1, -1, -1, -1, -1, -1};

  // Precondition: kind is F, B, I, W, SEND_* or RECV_*.
  std::int32_t& operator[](ActionKind kind) { return index[column(kind)]; }
  std::int32_t operator[](ActionKind kind) const { return index[column(kind)]; }

  // Index of the instruction that makes the gradient of the input: B or I, the first of them.
  std::int32_t input_gradient() const {
    const std::int32_t whole = (*this)[ActionKind::kBackward];
    const std::int32_t half = (*this)[ActionKind::kBackwardInput];
    return whole >= 0 && half >= 0 ? std::min(whole, half) : std::max(whole, half);
  }
  bool empty() const {
    return std::all_of(index.begin(), index.end(), [](std::int32_t at) { return at == kAbsent; });
  }

 private:
  static std::size_t column(ActionKind kind) {
    const int number = static_cast<int>(kind);
    return static_cast<std::size_t>(kind < ActionKind::kOverlap
                                        ? number - static_cast<int>(ActionKind::kForward)
                                        : number - static_cast<int>(ActionKind::kSendForward) + 4);
  }
};

// A complete program has at least one instruction for each stage and microbatch, so a table over
// all pairs is in proportion to it. With fewer instructions, only the pairs that occur are kept: a
// few lines of text that name stage 60000 and microbatch 1000000 must not fill the memory.
class PlaceTable {
 public:
  PlaceTable() = default;
  explicit PlaceTable(const Program& program)
      : num_stages_(std::max(program.num_stages, 0)),
        num_microbatches_(std::max(program.num_microbatches, 0)) {
    std::int64_t instructions = 0;
    for (const std::vector<Action>& row : program.ranks) {
      instructions += static_cast<std::int64_t>(row.size());
    }
    const std::int64_t pairs = num_stages_ * num_microbatches_;
    is_dense_ = pairs <= 4096 + instructions;
    if (is_dense_) dense_.resize(static_cast<std::size_t>(pairs));
  }

  // Precondition: both in range.
  Places& at(int stage, int microbatch) {
    return is_dense_ ? dense_[key(stage, microbatch)] : sparse_[key(stage, microbatch)];
  }
  // Nothing there, and out of range, is all kAbsent.
  const Places& find(int stage, int microbatch) const {
    static const Places nothing;
    if (stage < 0 || stage >= num_stages_) return nothing;
    if (is_dense_) return dense_[key(stage, microbatch)];
    const auto found = sparse_.find(key(stage, microbatch));
    return found == sparse_.end() ? nothing : found->second;
  }

  // visit(stage, microbatch, places) of every pair that occurs, in ascending order.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    const auto call = [&](std::uint64_t pair, const Places& places) {
      visit(static_cast<int>(pair / num_microbatches_), static_cast<int>(pair % num_microbatches_),
            places);
    };
    if (is_dense_) {
      for (std::size_t pair = 0; pair < dense_.size(); ++pair) {
        if (!dense_[pair].empty()) call(pair, dense_[pair]);
      }
      return;
    }
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
  std::vector<Places> dense_;
  std::unordered_map<std::uint64_t, Places> sparse_;
};

}  // namespace sluice::detail
