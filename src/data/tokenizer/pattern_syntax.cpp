#include "data/tokenizer/pattern_syntax.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/format.h"
#include "data/tokenizer/utf8.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

using Kind = PatternNode::Kind;

constexpr int kMaxDepth = 50;
constexpr std::uint32_t kMaxCount = 1000;

CodepointRanges one(char32_t c) { return {{c, c}}; }

CodepointRanges any_but_newline() { return complement(one('\n')); }

// In Oniguruma, \w within a class excludes superscripts and fractions of Latin-1.
const CodepointRanges& class_word() {
  static const CodepointRanges set = intersection(
      ranges_of(CodepointSet::kWord), complement({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}}));
  return set;
}

bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Parser {
 public:
  Parser(std::string_view pattern, const std::string& where) : text_(pattern), where_(where) {}

  PatternNode parse() {
    PatternNode all = choice(0);
    if (!at_end()) refuse("an unmatched ')'");
    return all;
  }

 private:
  struct Flags {
    bool ignore_case = false, dot_all = false;
  };

  bool at_end() const { return at_ == text_.size(); }
  bool next_is(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!next_is(what)) return false;
    at_ += what.size();
    return true;
  }
  char32_t take_codepoint() {
    if (at_end()) refuse("an unfinished escape or class");
    return next_codepoint(text_, at_);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kInput,
                {.what = formatted("the pattern '{}' has {} at byte {}, which is not understood",
                                   text_, what, at_),
                 .where = where_,
                 .remedy = "docs/tokenizer.md lists what patterns may hold"});
  }

  PatternNode choice(int depth) {
    if (depth > kMaxDepth) refuse("groups nested too deeply");
    const Flags outer = flags_;
    PatternNode all;
    all.kind = Kind::kChoice;
    do {
      all.children.push_back(sequence(depth));
    } while (take("|"));
    flags_ = outer;
    if (all.children.size() == 1) {
      PatternNode only = std::move(all.children.front());
      return only;
    }
    return all;
  }

  PatternNode sequence(int depth) {
    PatternNode all;
    char32_t before = 0;  // previous letter if case is ignored
    while (!at_end() && !next_is("|") && !next_is(")")) {
      const std::size_t start = at_;
      PatternNode atom = parse_atom(depth);
      const char32_t letter = flags_.ignore_case && at_ == start + 1 ? lower(text_[start]) : 0;
      refuse_long_folds(before, letter);
      before = letter;
      for (int repetitions = 0; quantify(atom); ++repetitions) {
        if (repetitions == 3) refuse("more than 3 repetitions in a row");
        before = 0;
      }
      all.children.push_back(std::move(atom));
    }
    return all;
  }

  static char32_t lower(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

  // Rejects letter pairs that match one character if case is ignored: "ss" matches U+00DF.
  void refuse_long_folds(char32_t first, char32_t second) const {
    static constexpr std::string_view kPairs[] = {"ss", "ff", "fi", "fl", "st"};
    for (const std::string_view pair : kPairs) {
      if (first == static_cast<char32_t>(pair[0]) && second == static_cast<char32_t>(pair[1]))
        refuse("'" + std::string(pair) + "' where case is ignored");
    }
  }

  static PatternNode set_node(CodepointRanges set) {
    PatternNode node;
    node.kind = Kind::kSet;
    node.set = std::move(set);
    return node;
  }

  static PatternNode assertion(Assertion which) {
    PatternNode node;
    node.kind = Kind::kAssertion;
    node.assertion = which;
    return node;
  }

  CodepointRanges without_case(char32_t c) const {
    if (!flags_.ignore_case) return one(c);
    if (c >= 128) refuse("a character beyond ASCII where case is ignored");
    return closed_over_case(one(c));
  }

  // Adds the other case of ASCII letters. K and S have a third form.
  CodepointRanges closed_over_case(CodepointRanges set) const {
    CodepointRanges all = set;
    for (const CodepointRange& range : set) {
      for (char32_t c = range.first; c <= std::min<char32_t>(range.last, 127); ++c) {
        if (!is_ascii_letter(c)) continue;
        all.push_back({c ^ 0x20, c ^ 0x20});
        if ((c | 0x20) == 'k') all.push_back({0x212A, 0x212A});
        if ((c | 0x20) == 's') all.push_back({0x17F, 0x17F});
      }
    }
    return joined(std::move(all));
  }

  PatternNode parse_atom(int depth) {
    if (next_is("(")) return group(depth);
    if (next_is("[")) return set_node(character_class(depth));
    if (take(".")) return set_node(flags_.dot_all ? complement({}) : any_but_newline());
    if (take("^")) return assertion(Assertion::kLineStart);
    if (take("$")) return assertion(Assertion::kLineEnd);
    if (next_is("*") || next_is("+") || next_is("?")) refuse("a repetition of nothing");
    if (take("\\")) return escape();
    return set_node(without_case(take_codepoint()));
  }

  PatternNode escape() {
    static constexpr std::pair<std::string_view, Assertion> kAssertions[] = {
        {"A", Assertion::kTextStart},
        {"z", Assertion::kTextEnd},
        {"Z", Assertion::kTextEndOrNewline},
        {"b", Assertion::kWordEdge},
        {"B", Assertion::kNoWordEdge}};
    for (const auto& [letter, which] : kAssertions) {
      if (take(letter)) return assertion(which);
    }
    bool is_set = false;
    CodepointRanges set = escaped(is_set, ranges_of(CodepointSet::kWord));
    if (!is_set) return set_node(without_case(set.front().first));
    return set_node(std::move(set));
  }

  // Sets `is_set` to false if the escape is a single character.
  CodepointRanges escaped(bool& is_set, const CodepointRanges& word) {
    is_set = true;
    const auto either = [](bool negated, const CodepointRanges& set) {
      return negated ? complement(set) : set;
    };
    const CodepointRanges hex = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    for (const bool negated : {false, true}) {
      if (take(negated ? "S" : "s")) return either(negated, ranges_of(CodepointSet::kSpace));
      if (take(negated ? "D" : "d")) return either(negated, ranges_of(CodepointSet::kDigit));
      if (take(negated ? "W" : "w")) return either(negated, word);
      if (take(negated ? "H" : "h")) return either(negated, hex);
      if (take(negated ? "P{" : "p{")) return property(negated);
    }
    is_set = false;
    if (take("x{")) return one(hexadecimal(1, 8, "}"));
    if (take("x")) return one(hexadecimal(1, 2, "", 0x7F));
    if (take("u")) return one(hexadecimal(4, 4, ""));
    static constexpr std::pair<char, char32_t> kControls[] = {
        {'t', '\t'}, {'n', '\n'}, {'r', '\r'}, {'f', '\f'}, {'v', '\v'}, {'a', '\a'}, {'e', 0x1B}};
    for (const auto& [letter, codepoint] : kControls) {
      if (take(std::string_view(&letter, 1))) return one(codepoint);
    }
    const std::size_t start = at_;
    const char32_t c = take_codepoint();
    if (is_ascii_letter(c) || (c >= '0' && c <= '9')) {
      at_ = start;
      refuse("the escape '\\" + std::string(text_.substr(start, 1)) + "'");
    }
    return one(c);
  }

  CodepointRanges property(bool negated) {
    if (flags_.ignore_case) refuse("a property where case is ignored");
    if (take("^")) negated = !negated;
    const std::size_t end = text_.find('}', at_);
    if (end == std::string_view::npos) refuse("a property without an end");
    const std::string name(text_.substr(at_, end - at_));
    const std::optional<CodepointRanges> set = property_ranges(name);
    if (!set) refuse("the property '" + name + "'");
    at_ = end + 1;
    return negated ? complement(*set) : *set;
  }

  char32_t hexadecimal(std::size_t least, std::size_t most, std::string_view close,
                       char32_t highest = 0x10FFFF) {
    char32_t value = 0;
    std::size_t digits = 0;
    for (; digits < most && !at_end(); ++digits, ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'                      ? c - '0'
                        : is_ascii_letter(c) && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                  : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (digits < least || !take(close) || value > highest || (value >= 0xD800 && value < 0xE000)) {
      refuse("a malformed or too large number of a character");
    }
    return value;
  }

  CodepointRanges character_class(int depth) {
    if (depth > kMaxDepth) refuse("classes nested too deeply");
    take("[");
    const bool negated = take("^");
    if (next_is("]")) refuse("an empty class");
    CodepointRanges set;
    std::optional<CodepointRanges> so_far;  // intersection of && operands so far
    while (!take("]")) {
      if (at_end()) refuse("a class without an end");
      if (next_is("[:")) refuse("a POSIX class");
      if (next_is("[")) {
        add(set, character_class(depth + 1));
        continue;
      }
      if (take("&&")) {
        set = joined(std::move(set));
        so_far = so_far ? intersection(*so_far, set) : set;
        set.clear();
        continue;
      }
      bool is_set = false;
      const char32_t first = class_character(set, is_set);
      if (is_set) {
        if (next_is("-") && !next_is("-]")) refuse("a range that starts with a class");
        continue;
      }
      if (!next_is("-") || next_is("-]")) {
        add(set, closed(one(first)));
        continue;
      }
      take("-");
      if (next_is("[") || next_is("&&")) refuse("a range without an end");
      CodepointRanges end;
      const char32_t last = class_character(end, is_set);
      if (is_set || last < first)
        refuse("a range that does not go from a character to a later one");
      add(set, closed({{first, last}}));
    }
    set = joined(std::move(set));
    if (so_far) set = intersection(*so_far, set);
    return negated ? complement(set) : set;
  }

  CodepointRanges closed(CodepointRanges set) const {
    if (!flags_.ignore_case) return set;
    if (set.back().last >= 128) refuse("a character beyond ASCII where case is ignored");
    return closed_over_case(std::move(set));
  }

  static void add(CodepointRanges& set, const CodepointRanges& more) {
    set.insert(set.end(), more.begin(), more.end());
  }

  // Returns one character, or sets `is_set` and adds a class to `set`.
  char32_t class_character(CodepointRanges& set, bool& is_set) {
    is_set = false;
    if (!take("\\")) return take_codepoint();
    if (take("b")) return '\b';
    const CodepointRanges meant = escaped(is_set, class_word());
    if (is_set) add(set, meant);
    return meant.empty() ? 0 : meant.front().first;
  }

  PatternNode group(int depth) {
    take("(");
    PatternNode node;
    const Flags outer = flags_;
    if (take("?")) {
      if (take(":")) {
        node = choice(depth + 1);
      } else if (take(">")) {
        node.kind = Kind::kAtomic;
        node.children.push_back(choice(depth + 1));
      } else if (next_is("=") || next_is("!") || next_is("<=") || next_is("<!")) {
        node.kind = Kind::kLook;
        node.behind = take("<");
        node.negated = take("!");
        take("=");
        node.children.push_back(choice(depth + 1));
      } else if (read_flags()) {
        if (take(")")) return choice(depth + 1);  // flags for the rest of the group
        if (!take(":")) refuse("a group that is not known");
        node = choice(depth + 1);
      } else {
        refuse("a group that is not known");
      }
    } else {
      node = choice(depth + 1);
    }
    flags_ = outer;
    if (!take(")")) refuse("a group without an end");
    return node;
  }

  bool read_flags() {
    const std::size_t start = at_;
    Flags flags = flags_;
    bool on = true;
    for (; !at_end() && !next_is(":") && !next_is(")"); ++at_) {
      const char c = text_[at_];
      if (c == '-' && on) {
        on = false;
      } else if (c == 'i') {
        flags.ignore_case = on;
      } else if (c == 'm') {
        flags.dot_all = on;
      } else {
        at_ = start;
        return false;
      }
    }
    flags_ = flags;
    return at_ > start;
  }

  // Returns false if no repetition follows.
  bool quantify(PatternNode& atom) {
    std::uint32_t least = 0, most = PatternNode::kEndless;
    bool counted = false;
    const std::size_t start = at_;
    if (take("*")) {
    } else if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (next_is("{") && read_counts(least, most)) {
      counted = true;
    } else {
      return false;
    }
    if (atom.kind == Kind::kAssertion || atom.kind == Kind::kLook) {
      at_ = start;
      refuse("a repetition of something without length");
    }
    PatternNode repeat;
    repeat.kind = Kind::kRepeat;
    repeat.least = least;
    repeat.most = most;
    // In Oniguruma, '+' after {n,m} repeats again, and {n}? is an optional {n}.
    if (counted && least == most && next_is("?")) refuse("'{n}?'");
    if (take("?")) {
      repeat.repetition = Repetition::kLazy;
    } else if (!counted && take("+")) {
      repeat.repetition = Repetition::kPossessive;
    }
    if (most == PatternNode::kEndless && atom.may_be_empty())
      refuse("an endless repetition of a part that may be empty");
    repeat.children.push_back(std::move(atom));
    atom = std::move(repeat);
    return true;
  }

  // A brace that is no "{n,m}" is an ordinary character.
  bool read_counts(std::uint32_t& least, std::uint32_t& most) {
    const std::size_t start = at_;
    take("{");
    const std::optional<std::uint32_t> low = number();
    std::optional<std::uint32_t> high = low;
    const bool comma = take(",");
    if (comma) high = number();
    if ((!low && !high) || !take("}")) {
      at_ = start;
      return false;
    }
    least = low.value_or(0);
    most = high.value_or(PatternNode::kEndless);
    if (most < least) refuse(formatted("a repetition of at least {} and at most {}", least, most));
    return true;
  }

  std::optional<std::uint32_t> number() {
    std::optional<std::uint32_t> value;
    for (; !at_end() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value.value_or(0) * 10 + static_cast<std::uint32_t>(text_[at_] - '0');
      if (*value > kMaxCount) refuse("a repetition of more than " + std::to_string(kMaxCount));
    }
    return value;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
  Flags flags_;
};

}  // namespace

bool PatternNode::may_be_empty() const {
  const auto empty = [](const PatternNode& child) { return child.may_be_empty(); };
  switch (kind) {
    case Kind::kSet:
      return false;
    case Kind::kSequence:
      return std::all_of(children.begin(), children.end(), empty);
    case Kind::kChoice:
      return std::any_of(children.begin(), children.end(), empty);
    case Kind::kRepeat:
      return least == 0 || empty(children.front());
    case Kind::kAtomic:
      return empty(children.front());
    case Kind::kLook:
    case Kind::kAssertion:
      return true;
  }
  return true;
}

PatternNode parse_pattern(std::string_view pattern, const std::string& where) {
  return Parser(pattern, where).parse();
}

}  // namespace sluice::data
