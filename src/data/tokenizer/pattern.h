// Regular expressions of tokenizer.json, which Oniguruma reads there (its default syntax).
//
// Owns: the part of that syntax that is understood, compiling it, finding matches by backtracking.
// Does not own: the use of matches (pre_tokenizer.h, normalizer.h).
//
// Understood: characters and their escapes; . and classes with ranges, nesting and &&; \s \d \w \h
// \p{..}; groups, (?i: ) for ASCII, lookahead, lookbehind of fixed length, (?> ); greedy, lazy and
// possessive repetition; ^ $ \A \z \Z \b \B. Anything else is refused by its name.
//
// Invariants:
//  1. Matches are those of Oniguruma: leftmost, first alternative that fits.
//  2. The steps that all patterns take for one text are bounded by a multiple of its length
//     (PatternScratch::allow); a pattern that needs more throws.
// Thread-safety: const members may be called from any thread, each with a PatternScratch of its
// own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {

inline constexpr std::size_t kMaxPatternBytes = 1 << 14;
inline constexpr std::uint64_t kStepsPerByte = 400, kFreeSteps = 1 << 16;

struct PatternMatch {
  std::size_t first = 0, last = 0;  // bytes [first, last)
};

// Memory that matching uses again, and what is left of the steps for a text.
struct PatternScratch {
  struct Choice {
    std::uint32_t instruction;
    std::uint32_t kind;  // Pattern's own
    std::size_t at, least;
  };
  std::vector<Choice> choices;
  std::uint64_t steps = 0;

  // For a text of so many bytes.
  void allow(std::size_t bytes) { steps = kFreeSteps + kStepsPerByte * bytes; }
};

class Pattern {
 public:
  // Throws Error(kInput) at `where`: malformed, too long, a construct that is not understood.
  Pattern(std::string_view pattern, const std::string& where);
  // Calls found(PatternMatch) for one match after the other, as Oniguruma's iterator finds them: an
  // empty match is not taken where the one before it ended.
  // Preconditions: valid UTF-8, scratch.allow(). Throws Error(kInput) when the steps are used up.
  template <typename Found>
  void each_match(std::string_view text, PatternScratch& scratch, Found&& found) const {
    PatternMatch match;
    std::size_t from = 0, last_end = std::string_view::npos;
    while (from <= text.size() && find(text, from, scratch, match)) {
      if (match.first == match.last && match.last == last_end) {
        from += from < text.size() ? utf8_length(text[from]) : 1;
        continue;
      }
      from = last_end = match.last;
      found(match);
    }
  }

 private:
  friend class PatternCompiler;

  enum class Op : std::uint8_t {
    kByte,        // x: the byte
    kClass,       // x: the class
    kSplit,       // x first, then y
    kJump,        // x
    kGreedy,      // as many characters of class x as there are, from y up to z
    kPossessive,  // the same, none given back
    kLookahead,   // y: after it; z: 1 if it must not match. What is looked for follows, to kMatch
    kLookbehind,  // the same, from x characters before on, ending here
    kAtomic,      // y: after it
    kLineStart,
    kLineEnd,
    kTextStart,
    kTextEnd,
    kTextEndOrNewline,
    kWordEdge,
    kNoWordEdge,
    kMatch,
    kFail,
  };
  struct Instruction {
    Op op;
    std::uint32_t x = 0, y = 0, z = 0;
  };
  struct CharacterClass {
    std::array<std::uint64_t, 2> ascii{};
    std::shared_ptr<const CodepointBits> bits;
    bool has(char32_t c) const { return c < 128 ? ascii[c >> 6] >> (c & 63) & 1 : bits->has(c); }
  };

  // The first match that starts at `from` or later.
  bool find(std::string_view text, std::size_t from, PatternScratch& scratch,
            PatternMatch& match) const;
  // True if the program from `instruction` on fits at `at`; it ends at `end` then.
  bool run(std::uint32_t instruction, std::string_view text, std::size_t at,
           PatternScratch& scratch, std::size_t& end) const;
  [[noreturn]] void out_of_steps() const;

  std::string where_, shown_;
  std::vector<Instruction> code_;
  std::vector<CharacterClass> classes_;
  // The top-level alternatives that can start with a byte below 128; other bytes try them all.
  std::vector<std::uint32_t> alternatives_;
  std::array<std::uint64_t, 128> can_begin_{};
  std::uint64_t all_alternatives_ = 0;
};

}  // namespace sluice::data
