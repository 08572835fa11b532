#include "data/tokenizer/pattern.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/format.h"
#include "data/tokenizer/pattern_syntax.h"
#include "data/tokenizer/utf8.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

using Kind = PatternNode::Kind;

constexpr std::size_t kMaxInstructions = 1 << 16;
constexpr std::size_t kMaxClasses = 64;
constexpr std::size_t kMaxChoices = std::size_t{1} << 22;
constexpr std::size_t kMaxAlternatives = 64;

using AsciiSet = std::array<bool, 128>;

// ASCII bytes that can start a match, or all if the match may be empty.
AsciiSet first_bytes(const PatternNode& node) {
  AsciiSet set{};
  const auto add = [&set](const AsciiSet& more) {
    for (std::size_t c = 0; c < set.size(); ++c) set[c] = set[c] || more[c];
  };
  if (node.may_be_empty()) {
    set.fill(true);
    return set;
  }
  switch (node.kind) {
    case Kind::kSet:
      for (const CodepointRange& range : node.set) {
        for (char32_t c = range.first; c <= range.last && c < 128; ++c) set[c] = true;
      }
      break;
    case Kind::kSequence:
      for (const PatternNode& child : node.children) {
        // This child may match nothing, so the next child can start the match too.
        if (child.kind == Kind::kRepeat && child.may_be_empty() &&
            !child.children.front().may_be_empty()) {
          add(first_bytes(child.children.front()));
          continue;
        }
        if (child.kind == Kind::kAssertion || child.kind == Kind::kLook) continue;
        add(first_bytes(child));
        break;
      }
      break;
    case Kind::kChoice:
      for (const PatternNode& child : node.children) add(first_bytes(child));
      break;
    case Kind::kRepeat:
    case Kind::kAtomic:
      add(first_bytes(node.children.front()));
      break;
    case Kind::kLook:
    case Kind::kAssertion:
      break;
  }
  return set;
}

}  // namespace

class PatternCompiler {
 public:
  using Op = Pattern::Op;
  using Instruction = Pattern::Instruction;

  PatternCompiler(Pattern& pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  void compile(const PatternNode& root) {
    std::vector<const PatternNode*> alternatives = {&root};
    if (root.kind == Kind::kChoice && root.children.size() <= kMaxAlternatives) {
      alternatives.clear();
      for (const PatternNode& child : root.children) alternatives.push_back(&child);
    }
    for (std::size_t i = 0; i < alternatives.size(); ++i) {
      pattern_.alternatives_.push_back(here());
      emit(*alternatives[i]);
      add({Op::kMatch});
      const AsciiSet first = first_bytes(*alternatives[i]);
      const std::uint64_t bit = std::uint64_t{1} << i;
      pattern_.all_alternatives_ |= bit;
      for (std::size_t c = 0; c < first.size(); ++c) {
        if (first[c]) pattern_.can_begin_[c] |= bit;
      }
    }
  }

 private:
  std::uint32_t here() const { return static_cast<std::uint32_t>(pattern_.code_.size()); }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kInput, {.what = "the pattern '" + pattern_.shown_ + "' has " + what,
                                    .where = where_,
                                    .remedy = "docs/tokenizer.md lists what patterns may hold"});
  }

  std::uint32_t add(Instruction instruction) {
    if (pattern_.code_.size() >= kMaxInstructions) refuse("repetitions that are too large");
    pattern_.code_.push_back(instruction);
    return here() - 1;
  }

  std::uint32_t class_of(const CodepointRanges& set) {
    std::vector<std::uint32_t> key;
    for (const CodepointRange& range : set) key.insert(key.end(), {range.first, range.last});
    const auto [it, added] =
        classes_.emplace(key, static_cast<std::uint32_t>(pattern_.classes_.size()));
    if (added) {
      if (pattern_.classes_.size() >= kMaxClasses)
        refuse(formatted("more than {} classes", kMaxClasses));
      Pattern::CharacterClass made;
      for (const CodepointRange& range : set) {
        for (char32_t c = range.first; c <= range.last && c < 128; ++c) {
          made.ascii[c >> 6] |= std::uint64_t{1} << (c & 63);
        }
      }
      made.bits = std::make_shared<const CodepointBits>(set);
      pattern_.classes_.push_back(std::move(made));
    }
    return it->second;
  }

  void emit(const PatternNode& node) {
    switch (node.kind) {
      case Kind::kSet:
        emit_set(node.set);
        break;
      case Kind::kSequence:
        for (const PatternNode& child : node.children) emit(child);
        break;
      case Kind::kChoice:
        emit_choice(node);
        break;
      case Kind::kRepeat:
        emit_repeat(node);
        break;
      case Kind::kAtomic: {
        const std::uint32_t atomic = add({Op::kAtomic});
        emit(node.children.front());
        add({Op::kMatch});
        pattern_.code_[atomic].y = here();
        break;
      }
      case Kind::kLook:
        if (node.behind) {
          emit_behind(node);
        } else {
          emit_look(Op::kLookahead, 0, node.negated, node.children.front());
        }
        break;
      case Kind::kAssertion:
        emit_assertion(node.assertion);
        break;
    }
  }

  void emit_set(const CodepointRanges& set) {
    if (set.size() == 1 && set.front().first == set.front().last) {
      std::string bytes;
      append_utf8(bytes, set.front().first);
      for (const char byte : bytes) add({Op::kByte, static_cast<unsigned char>(byte)});
    } else if (set.empty()) {
      add({Op::kFail});
    } else {
      add({Op::kClass, class_of(set)});
    }
  }

  void emit_choice(const PatternNode& node) {
    std::vector<std::uint32_t> jumps;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const bool last = i + 1 == node.children.size();
      const std::uint32_t split = last ? 0 : add({Op::kSplit});
      if (!last) pattern_.code_[split].x = here();
      emit(node.children[i]);
      if (last) break;
      jumps.push_back(add({Op::kJump}));
      pattern_.code_[split].y = here();
    }
    for (const std::uint32_t jump : jumps) pattern_.code_[jump].x = here();
  }

  void emit_repeat(const PatternNode& node) {
    const PatternNode& body = node.children.front();
    if (body.kind == Kind::kSet && !body.set.empty() && node.repetition != Repetition::kLazy) {
      const Op op = node.repetition == Repetition::kGreedy ? Op::kGreedy : Op::kPossessive;
      add({op, class_of(body.set), node.least, node.most});
      return;
    }
    std::uint32_t atomic = 0;
    if (node.repetition == Repetition::kPossessive) atomic = add({Op::kAtomic});
    for (std::uint32_t i = 0, before = here(); i < node.least; ++i) {
      emit(body);
      if (here() == before) break;
    }
    const bool lazy = node.repetition == Repetition::kLazy;
    const auto split = [&] { return add({Op::kSplit}); };
    const auto set_split = [&](std::uint32_t at, std::uint32_t again, std::uint32_t on) {
      pattern_.code_[at].x = lazy ? on : again;
      pattern_.code_[at].y = lazy ? again : on;
    };
    if (node.most == PatternNode::kEndless) {
      const std::uint32_t loop = split();
      emit(body);
      add({Op::kJump, loop});
      set_split(loop, loop + 1, here());
    } else {
      std::vector<std::uint32_t> splits;
      for (std::uint32_t i = node.least; i < node.most; ++i) {
        splits.push_back(split());
        emit(body);
      }
      for (const std::uint32_t at : splits) set_split(at, at + 1, here());
    }
    if (node.repetition == Repetition::kPossessive) {
      add({Op::kMatch});
      pattern_.code_[atomic].y = here();
    }
  }

  void emit_look(Op op, std::uint32_t characters, bool negated, const PatternNode& what) {
    const std::uint32_t look = add({op, characters, 0, negated ? 1u : 0u});
    emit(what);
    add({Op::kMatch});
    pattern_.code_[look].y = here();
  }

  // Alternatives may differ in length, so each becomes a separate lookbehind.
  void emit_behind(const PatternNode& node) {
    const PatternNode& what = node.children.front();
    std::vector<const PatternNode*> alternatives = {&what};
    if (what.kind == Kind::kChoice) {
      alternatives.clear();
      for (const PatternNode& child : what.children) alternatives.push_back(&child);
    }
    std::vector<std::uint32_t> jumps;
    for (std::size_t i = 0; i < alternatives.size(); ++i) {
      const bool last = i + 1 == alternatives.size();
      std::uint32_t split = 0;
      if (!node.negated && !last) {
        split = add({Op::kSplit});
        pattern_.code_[split].x = here();
      }
      emit_look(Op::kLookbehind, length_of(*alternatives[i]), node.negated, *alternatives[i]);
      if (!node.negated && !last) {
        jumps.push_back(add({Op::kJump}));
        pattern_.code_[split].y = here();
      }
    }
    for (const std::uint32_t jump : jumps) pattern_.code_[jump].x = here();
  }

  // Returns the number of characters that the node matches.
  std::uint32_t length_of(const PatternNode& node) const {
    switch (node.kind) {
      case Kind::kSet:
        return 1;
      case Kind::kSequence: {
        std::uint32_t sum = 0;
        for (const PatternNode& child : node.children) sum += length_of(child);
        if (sum > kMaxInstructions) refuse("a lookbehind that is too long");
        return sum;
      }
      case Kind::kRepeat:
        if (node.least == node.most) {
          const std::uint64_t length = std::uint64_t{node.least} * length_of(node.children.front());
          if (length > kMaxInstructions) refuse("a lookbehind that is too long");
          return static_cast<std::uint32_t>(length);
        }
        break;
      case Kind::kAtomic:
        return length_of(node.children.front());
      case Kind::kLook:
      case Kind::kAssertion:
        return 0;
      case Kind::kChoice: {
        const std::uint32_t length = length_of(node.children.front());
        // Visiting the first child twice per level would take exponential time.
        for (std::size_t i = 1; i < node.children.size(); ++i) {
          if (length_of(node.children[i]) != length) refuse("a lookbehind of varying length");
        }
        return length;
      }
    }
    refuse("a lookbehind of varying length");
  }

  void emit_assertion(Assertion assertion) {
    static constexpr Op kOps[] = {Op::kLineStart, Op::kLineEnd,          Op::kTextStart,
                                  Op::kTextEnd,   Op::kTextEndOrNewline, Op::kWordEdge,
                                  Op::kNoWordEdge};
    add({kOps[static_cast<std::size_t>(assertion)]});
  }

  Pattern& pattern_;
  const std::string& where_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> classes_;
};

Pattern::Pattern(std::string_view pattern, const std::string& where)
    : where_(where), shown_(pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("the pattern has {} bytes", pattern.size()),
                 .where = where,
                 .remedy = "give one of at most " + std::to_string(kMaxPatternBytes)});
  }
  PatternCompiler(*this, where).compile(parse_pattern(pattern, where));
}

void Pattern::out_of_steps() const {
  throw Error(ErrorKind::kInput,
              {.what = "the pattern '" + shown_ + "' takes too long to match a text",
               .where = where_,
               .remedy = "write it without repetitions of repetitions"});
}

bool Pattern::find(std::string_view text, std::size_t from, PatternScratch& scratch,
                   PatternMatch& match) const {
  for (std::size_t at = from;; at += utf8_length(text[at])) {
    const auto lead = at < text.size() ? static_cast<unsigned char>(text[at]) : 0x80;
    std::uint64_t mask = lead < 0x80 ? can_begin_[lead] : all_alternatives_;
    for (; mask != 0; mask &= mask - 1) {
      std::size_t end;
      if (run(alternatives_[std::countr_zero(mask)], text, at, scratch, end)) {
        match = {at, end};
        return true;
      }
    }
    if (at >= text.size()) return false;
  }
}

bool Pattern::run(std::uint32_t instruction, std::string_view text, std::size_t at,
                  PatternScratch& scratch, std::size_t& end) const {
  constexpr std::uint32_t kGoOn = 0, kGiveBack = 1;
  std::vector<PatternScratch::Choice>& choices = scratch.choices;
  const std::size_t base = choices.size();
  const auto spend = [&](std::uint64_t steps) {
    if (scratch.steps < steps) {
      choices.clear();
      out_of_steps();
    }
    scratch.steps -= steps;
  };
  const auto push = [&](PatternScratch::Choice choice) {
    if (choices.size() >= kMaxChoices) {
      choices.clear();
      out_of_steps();
    }
    choices.push_back(choice);
  };
  const auto is_word = [&](std::size_t where) {
    return bits_of(CodepointSet::kWord).has(next_codepoint(text, where));
  };
  const auto word_edge = [&] {
    const bool before = at > 0 && is_word(previous_character(text, at));
    return before != (at < text.size() && is_word(at));
  };
  for (;;) {
    spend(1);
    const Instruction& step = code_[instruction];
    bool fits = true;
    switch (step.op) {
      case Op::kByte:
        fits = at < text.size() && static_cast<unsigned char>(text[at]) == step.x;
        ++at;
        ++instruction;
        break;
      case Op::kClass:
        fits = at < text.size() && classes_[step.x].has(next_codepoint(text, at));
        ++instruction;
        break;
      case Op::kSplit:
        push({step.y, kGoOn, at, 0});
        instruction = step.x;
        break;
      case Op::kJump:
        instruction = step.x;
        break;
      case Op::kGreedy:
      case Op::kPossessive: {
        const CharacterClass& set = classes_[step.x];
        std::uint32_t count = 0;
        std::size_t least = at;
        while (count < step.z && at < text.size()) {
          std::size_t next = at;
          if (!set.has(next_codepoint(text, next))) break;
          at = next;
          if (++count == step.y) least = at;
        }
        spend(count);
        fits = count >= step.y;
        ++instruction;
        if (fits && step.op == Op::kGreedy && at > least && code_[instruction].op != Op::kMatch) {
          push({instruction, kGiveBack, at, least});
        }
        break;
      }
      case Op::kLookahead:
      case Op::kLookbehind:
      case Op::kAtomic: {
        std::size_t start = at, inner_end = 0;
        bool there = true;
        if (step.op == Op::kLookbehind) {
          for (std::uint32_t i = 0; i < step.x && there; ++i) {
            there = start > 0;
            if (there) start = previous_character(text, start);
          }
          spend(step.x);
        }
        // The recursive call backtracks only into its own choices.
        there = there && run(instruction + 1, text, start, scratch, inner_end) &&
                (step.op != Op::kLookbehind || inner_end == at);
        fits = there != (step.op != Op::kAtomic && step.z == 1);
        if (fits && step.op == Op::kAtomic) at = inner_end;
        instruction = step.y;
        break;
      }
      case Op::kLineStart:
        fits = at == 0 || (text[at - 1] == '\n' && at < text.size());
        ++instruction;
        break;
      case Op::kLineEnd:
        fits = at == text.size() || text[at] == '\n';
        ++instruction;
        break;
      case Op::kTextStart:
        fits = at == 0;
        ++instruction;
        break;
      case Op::kTextEnd:
        fits = at == text.size();
        ++instruction;
        break;
      case Op::kTextEndOrNewline:
        fits = at == text.size() || (at + 1 == text.size() && text[at] == '\n');
        ++instruction;
        break;
      case Op::kWordEdge:
      case Op::kNoWordEdge:
        fits = word_edge() == (step.op == Op::kWordEdge);
        ++instruction;
        break;
      case Op::kMatch:
        end = at;
        choices.resize(base);
        return true;
      case Op::kFail:
        fits = false;
        break;
    }
    if (fits) continue;
    if (choices.size() == base) return false;
    PatternScratch::Choice& choice = choices.back();
    instruction = choice.instruction;
    at = choice.at;
    if (choice.kind == kGiveBack) {
      at = choice.at = previous_character(text, at);
      if (choice.at == choice.least) choices.pop_back();
    } else {
      choices.pop_back();
    }
  }
}

}  // namespace sluice::data
