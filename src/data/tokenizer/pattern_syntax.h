// The syntax tree of a regular expression (pattern.h), and reading it.
//
// Owns: the grammar and what of it is refused. Does not own: matching.
// Thread-safety: values; a pure function.
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
    kSequence,  // of children
    kChoice,    // of children, the first that fits
    kRepeat,    // of the only child
    kLook,      // the only child, without taking it
    kAtomic,    // the only child, of which nothing is given back
    kAssertion,
  };
  static constexpr std::uint32_t kEndless = std::numeric_limits<std::uint32_t>::max();

  Kind kind = Kind::kSequence;
  CodepointRanges set;
  std::vector<PatternNode> children;
  std::uint32_t least = 0, most = 0;  // bounds of kRepeat
  Repetition repetition = Repetition::kGreedy;
  bool behind = false, negated = false;  // direction and sense of kLook
  Assertion assertion = Assertion::kLineStart;

  // Fits where there is nothing.
  bool may_be_empty() const;
};

// Throws Error(kInput) at `where`.
PatternNode parse_pattern(std::string_view pattern, const std::string& where);

}  // namespace sluice::data
