// Regular expressions of tokenizer.json, matched like Oniguruma with its default syntax: leftmost,
// first alternative that fits.
//
// Supports characters and escapes; . and classes with ranges, nesting and &&; \s \d \w \h \p{..};
// groups, (?i: ) for ASCII, lookahead, lookbehind of fixed length, (?> ); greedy, lazy and
// possessive repetition; ^ $ \A \z \Z \b \B. Rejects other constructs by name.
//
// The steps for one text are limited in proportion to its length (PatternScratch::allow). Threads
// may share a Pattern if each has its own PatternScratch.
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
  std::size_t first = 0, last = 0;  // byte offsets: [first, last)
};

// Reusable memory, and the steps that remain for this text.
struct PatternScratch {
  struct Choice {
    std::uint32_t instruction;
    std::uint32_t kind;
    std::size_t at, least;
  };
  std::vector<Choice> choices;
  std::uint64_t steps = 0;

  void allow(std::size_t bytes) { steps = kFreeSteps + kStepsPerByte * bytes; }
};

class Pattern {
 public:
  // Throws Error(kInput) at `where` for an unsupported pattern.
  Pattern(std::string_view pattern, const std::string& where);
  // Calls found(PatternMatch) for every match. Like Oniguruma, skips an empty match where the
  // previous one ended. Preconditions: valid UTF-8, scratch.allow(). Throws Error(kInput) if the
  // steps run out.
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
    // x: byte
    kByte,
    kClass,       // x: character class
    kSplit,       // try x, then y
    kJump,        // x: target
    kGreedy,      // as many characters of class x as possible, y to z
    kPossessive,  // like kGreedy, without backtracking
    kLookahead,   // y: next instruction; z = 1: negated; the body follows, up to kMatch
    kLookbehind,  // like kLookahead, but the body starts x characters back and must end here
    kAtomic,      // y: next instruction
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

  bool find(std::string_view text, std::size_t from, PatternScratch& scratch,
            PatternMatch& match) const;
  // Runs the program from `instruction` at `at`. Sets `end` if it matches.
  bool run(std::uint32_t instruction, std::string_view text, std::size_t at,
           PatternScratch& scratch, std::size_t& end) const;
  [[noreturn]] void out_of_steps() const;

  std::string where_, shown_;
  std::vector<Instruction> code_;
  std::vector<CharacterClass> classes_;
  // Top-level alternatives. For each ASCII byte, a bit mask of those that can start with it.
  std::vector<std::uint32_t> alternatives_;
  std::array<std::uint64_t, 128> can_begin_{};
  std::uint64_t all_alternatives_ = 0;
};

}  // namespace sluice::data
