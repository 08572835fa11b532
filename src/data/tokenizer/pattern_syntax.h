#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/unicode.h"

namespace sluice::data {

enum class Repetition { kGreedy, kLazy, kPossessive };
enum class Assertion {
  kLineStart,
  kLineEnd,
  kTextStart,
  kTextEnd,
  kTextEndOrNewline,
  kWordEdge,
  kNoWordEdge
};

struct PatternNode {
  enum class Kind {
    kSet,
    kSequence,
    kChoice,  // the first child that matches
    kRepeat,
    kLook,    // lookahead or lookbehind
    kAtomic,  // no backtracking into the only child
    kAssertion,
  };
  static constexpr std::uint32_t kEndless = std::numeric_limits<std::uint32_t>::max();

  Kind kind = Kind::kSequence;
  CodepointRanges set;
  std::vector<PatternNode> children;
  std::uint32_t least = 0, most = 0;  // for kRepeat
  Repetition repetition = Repetition::kGreedy;
  bool behind = false, negated = false;  // for kLook
  Assertion assertion = Assertion::kLineStart;

  bool may_be_empty() const;
};

// Throws Error(kInput) at `where`.
PatternNode parse_pattern(std::string_view pattern, const std::string& where);

}  // namespace sluice::data
