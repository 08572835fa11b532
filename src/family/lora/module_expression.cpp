// Each node maps a set of start positions to a set of end positions. Trying each position once
// avoids exponential backtracking.
#include "family/lora/module_expression.h"

#include <algorithm>
#include <bitset>
#include <cctype>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/format.h"

namespace sluice::detail {

namespace {

constexpr std::size_t kMaxExpression = 4096, kMaxNesting = 64, kMaxRepeats = 256;
constexpr long kMaxSteps = 50'000;  // number of node evaluations

using Characters = std::bitset<256>;
using Places = std::vector<bool>;  // n + 1 flags for n characters

bool is_word(unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }

}  // namespace

struct ModuleExpression::Node {
  enum Kind { kCharacters, kSequence, kEither, kRepeat, kAhead, kBegin, kEnd, kWordEdge };

  Kind kind = kSequence;
  Characters characters = {};
  std::vector<Node> parts = {};  // one for kRepeat and kAhead
  std::size_t least = 0, most = 0;
  bool opposite = false;  // negates lookahead and \b
};

namespace {

using Node = ModuleExpression::Node;

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  Node parse() {
    if (text_.size() > kMaxExpression)
      refuse(formatted("it has more than {} characters", kMaxExpression));
    Node node = either();
    if (at_ < text_.size()) refuse("a ')' without its '('");
    return node;
  }

 private:
  bool is_at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  char next(const char* missing) {
    if (at_ == text_.size()) refuse(missing);
    return text_[at_++];
  }

  Node either() {
    if (++nesting_ > kMaxNesting) refuse("it is nested too deeply");
    Node node{.kind = Node::kEither};
    do {
      node.parts.push_back(sequence());
    } while (take("|"));
    --nesting_;
    return node;
  }

  Node sequence() {
    Node node{.kind = Node::kSequence};
    while (at_ < text_.size() && !is_at('|') && !is_at(')')) node.parts.push_back(repeated(one()));
    return node;
  }

  std::optional<std::pair<std::size_t, std::size_t>> counts() {
    constexpr std::size_t kAny = static_cast<std::size_t>(-1);
    if (take("*")) return {{0, kAny}};
    if (take("+")) return {{1, kAny}};
    if (take("?")) return {{0, 1}};
    if (!is_at('{')) return std::nullopt;
    const std::size_t before = at_++;
    const auto least = number();
    const bool ranges = take(",");
    const auto most = ranges ? number() : least;
    if (!take("}") || (!least && !ranges)) {  // the '{' is an ordinary character
      at_ = before;
      return std::nullopt;
    }
    return {{least.value_or(0), most.value_or(kAny)}};
  }

  std::optional<std::size_t> number() {
    std::optional<std::size_t> value;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      value = value.value_or(0) * 10 + static_cast<std::size_t>(text_[at_++] - '0');
      if (*value > kMaxRepeats) refuse(formatted("it repeats more than {} times", kMaxRepeats));
    }
    return value;
  }

  Node repeated(Node part) {
    const auto found = counts();
    if (!found) return part;
    if (found->first > found->second) refuse("the bounds of a repetition are the wrong way round");
    if (is_at('+')) refuse("possessive repetition, '+' behind it, is not known");
    take("?");  // laziness does not affect whether a name matches
    if (counts()) refuse("a repetition of a repetition is not known");
    Node node{.kind = Node::kRepeat, .least = found->first, .most = found->second};
    node.parts.push_back(std::move(part));
    return node;
  }

  static Node of(const Characters& characters) {
    return {.kind = Node::kCharacters, .characters = characters};
  }
  static Characters only(char c) { return Characters().set(static_cast<unsigned char>(c)); }

  Node one() {
    switch (const char c = next("it is empty")) {
      case '.':
        return of(~only('\n'));
      case '^':
        return {.kind = Node::kBegin};
      case '$':
        return {.kind = Node::kEnd};
      case '[':
        return of(set());
      case '(':
        return group();
      case '\\':
        return escaped();
      case '*':
      case '+':
      case '?':
        refuse(std::string("nothing stands before '") + c + "'");
      default:
        return of(only(c));
    }
  }

  Node group() {
    Node node;
    if (take("?=") || take("?!")) {
      node = {.kind = Node::kAhead, .opposite = text_[at_ - 1] == '!'};
      node.parts.push_back(either());
    } else {
      if (is_at('?') && !take("?:") && !name_of_group())
        refuse("the group '(" + std::string(text_.substr(at_, 3)) + "' is not known");
      node = either();
    }
    if (!take(")")) refuse("a '(' without its ')'");
    return node;
  }

  // Skips "?P<name>", which has no effect.
  bool name_of_group() {
    if (!take("?P<")) return false;
    while (next("a '(' without its ')'") != '>') {
    }
    return true;
  }

  // Returns the characters of "\d", "\W", .., or nothing.
  static std::optional<Characters> kind(char c) {
    Characters characters;
    const int lower = std::tolower(static_cast<unsigned char>(c));
    for (int i = 0; i < 128; ++i) {
      const auto character = static_cast<unsigned char>(i);
      if (lower == 'd') characters[character] = std::isdigit(character) != 0;
      if (lower == 'w') characters[character] = is_word(character);
      if (lower == 's') characters[character] = std::isspace(character) != 0;
    }
    if (characters.none()) return std::nullopt;
    return lower == c ? characters : ~characters;
  }

  Node escaped() {
    const char c = next("it ends with '\\'");
    if (c == 'b' || c == 'B') return {.kind = Node::kWordEdge, .opposite = c == 'B'};
    if (c == 'A') return {.kind = Node::kBegin};
    if (c == 'Z') return {.kind = Node::kEnd};
    if (const auto characters = kind(c)) return of(*characters);
    return of(only(plain(c)));
  }

  static char plain(char c) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      refuse(std::string("'\\") + c + "' is not known");
    return c;
  }

  Characters set() {
    constexpr const char* kOpen = "a '[' without its ']'";
    Characters characters;
    const bool opposite = take("^");
    bool first = true;
    for (char c = next(kOpen); c != ']' || first; c = next(kOpen)) {
      first = false;
      if (c == '\\') {
        c = next(kOpen);
        if (const auto several = kind(c)) {
          characters |= *several;
          continue;
        }
        c = plain(c);
      }
      const bool ranges = is_at('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!ranges) {
        characters |= only(c);
        continue;
      }
      ++at_;
      char last = next(kOpen);
      if (last == '\\') last = plain(next(kOpen));
      if (static_cast<unsigned char>(last) < static_cast<unsigned char>(c))
        refuse("a range in '[..]' is the wrong way round");
      for (int i = static_cast<unsigned char>(c); i <= static_cast<unsigned char>(last); ++i)
        characters.set(static_cast<std::size_t>(i));
    }
    return opposite ? ~characters : characters;
  }

  std::string_view text_;
  std::size_t at_ = 0, nesting_ = 0;
};

class ExpressionMatcher {
 public:
  explicit ExpressionMatcher(std::string_view name) : name_(name) {}

  Places ends(const Node& node, const Places& begins) {
    if (++steps_ > kMaxSteps) refuse("it takes too long to match");
    switch (node.kind) {
      case Node::kCharacters:
        return places_after(node.characters, begins);
      case Node::kSequence: {
        Places places = begins;
        for (const Node& part : node.parts) places = ends(part, places);
        return places;
      }
      case Node::kEither: {
        Places places(begins.size());
        for (const Node& part : node.parts) add(places, ends(part, begins));
        return places;
      }
      case Node::kRepeat:
        return repeated(node, begins);
      default:
        return places_that_satisfy(node, begins);
    }
  }

 private:
  static bool add(Places& places, const Places& more) {
    bool grows = false;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (!more[i] || places[i]) continue;
      places[i] = grows = true;
    }
    return grows;
  }

  Places places_after(const Characters& characters, const Places& begins) const {
    Places places(begins.size());
    for (std::size_t i = 0; i < name_.size(); ++i)
      places[i + 1] = begins[i] && characters[static_cast<unsigned char>(name_[i])];
    return places;
  }

  Places repeated(const Node& node, const Places& begins) {
    Places last = begins;
    for (std::size_t i = 0; i < node.least; ++i) last = ends(node.parts.front(), last);
    Places all = last;
    for (std::size_t i = node.least; i < node.most; ++i) {
      last = ends(node.parts.front(), last);
      if (!add(all, last)) break;
    }
    return all;
  }

  Places places_that_satisfy(const Node& node, const Places& begins) {
    Places places(begins.size());
    for (std::size_t i = 0; i < begins.size(); ++i) places[i] = begins[i] && holds(node, i);
    return places;
  }

  bool holds(const Node& node, std::size_t place) {
    if (node.kind == Node::kBegin) return place == 0;
    if (node.kind == Node::kEnd) return place == name_.size();
    if (node.kind == Node::kWordEdge) {
      const bool before = place > 0 && is_word(static_cast<unsigned char>(name_[place - 1]));
      const bool behind = place < name_.size() && is_word(static_cast<unsigned char>(name_[place]));
      return (before != behind) != node.opposite;
    }
    Places here(name_.size() + 1);
    here[place] = true;
    const Places found = ends(node.parts.front(), here);
    const bool any = std::find(found.begin(), found.end(), true) != found.end();
    return any != node.opposite;
  }

  std::string_view name_;
  long steps_ = 0;
};

}  // namespace

ModuleExpression::ModuleExpression(std::string_view text)
    : root_(std::make_shared<const Node>(ExpressionParser(text).parse())) {}

bool ModuleExpression::matches(std::string_view name) const {
  Places first(name.size() + 1);
  first.front() = true;
  return ExpressionMatcher(name).ends(*root_, first).back();
}

}  // namespace sluice::detail
