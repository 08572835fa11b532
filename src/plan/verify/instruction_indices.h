// Indices of a rank's instructions for one stage and microbatch.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "sluice/parts/action.h"

namespace sluice::detail {

struct InstructionIndices {
  static constexpr std::int32_t kAbsent = -1;
  static constexpr std::int32_t kElsewhere = -2;  // only on ranks that do not own the stage

  std::array<std::int32_t, 8> index{-1, -1, -1, -1, -1, -1, -1, -1};

  std::int32_t& operator[](ActionKind kind) { return index[column(kind)]; }
  std::int32_t operator[](ActionKind kind) const { return index[column(kind)]; }

  // Returns the index of the first B or I, which computes the input gradient.
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

}  // namespace sluice::detail
