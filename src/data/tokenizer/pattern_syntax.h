// Parses a regular expression (pattern.h) into a syntax tree.
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
    kSet,       // one character of `set`
    kSequence,  // all children
    kChoice,    // the first child that matches
    kRepeat,    // the only child, repeatedly
    kLook,      // lookahead or lookbehind
    kAtomic,    // the only child, without backtracking into it
    kAssertion,
  };
  static constexpr std::uint32_t kEndless = std::numeric_limits<std::uint32_t>::max();

  Kind kind = Kind::kSequence;
  CodepointRanges set;
  std::vector<PatternNode> children;
  std::uint32_t least = 0, most = 0;  // bounds of kRepeat
  Repetition repetition = Repetition::kGreedy;
  bool behind = false, negated = false;  // for kLook
  Assertion assertion = Assertion::kLineStart;

  // Whether the node can match an empty text.
  bool may_be_empty() const;
};

// Throws Error(kInput) at `where`.
PatternNode parse_pattern(std::string_view pattern, const std::string& where);

}  // namespace sluice::data
