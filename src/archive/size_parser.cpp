// Parses sympy's srepr, which has only calls, and Python, which has operators. Only brackets and
// signs make the recursion deeper.
#include <algorithm>
#include <charconv>
#include <limits>
#include <span>
#include <utility>

#include "archive/size_node.h"
#include "base/format.h"

namespace sluice::detail {
namespace {

struct OperatorRow {
  std::string_view text;
  int binding;
  SizeOp op;
};
// Longer operators come first. "-" is a kSum with a negated operand.
constexpr OperatorRow kOperators[] = {
    {"or", 1, SizeOp::kOr},           {"and", 2, SizeOp::kAnd},
    {"==", 4, SizeOp::kEqual},        {"!=", 4, SizeOp::kNotEqual},
    {"<=", 4, SizeOp::kLessEqual},    {">=", 4, SizeOp::kGreaterEqual},
    {"**", 11, SizeOp::kPythonPower}, {"//", 9, SizeOp::kFloorQuotient},
    {"<", 4, SizeOp::kLess},          {">", 4, SizeOp::kGreater},
    {"|", 5, SizeOp::kBitOr},         {"^", 6, SizeOp::kBitXor},
    {"&", 7, SizeOp::kBitAnd},        {"+", 8, SizeOp::kSum},
    {"-", 8, SizeOp::kSum},           {"*", 9, SizeOp::kProduct},
    {"/", 9, SizeOp::kTrueQuotient},  {"%", 9, SizeOp::kModulo},
};
constexpr int kBindingOfNot = 3, kBindingOfComparison = 4, kBindingOfPower = 11;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_of_name(char c) { return is_letter(c) || is_digit(c); }

class SizeParser {
 public:
  explicit SizeParser(std::string_view text) : text_(text) {}

  SizeExpression parse() {
    SizeExpression whole = expression(0);
    skip_blanks();
    if (at_ != text_.size()) refuse("end");
    return whole;
  }

 private:
  class Level {
   public:
    explicit Level(SizeParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxSizeDepth)
        refuse_size(formatted("an expression of sizes is deeper than {}", kMaxSizeDepth));
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --parser_.depth_; }

   private:
    SizeParser& parser_;
  };

  [[noreturn]] void refuse(std::string_view wanted) const {
    const std::size_t begin = at_ > 20 ? at_ - 20 : 0;
    refuse_size(formatted("an expression of sizes has no {} at its character {}, after '{}'",
                          wanted, at_ + 1, text_.substr(begin, at_ - begin)));
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool is_next(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    const std::size_t after = at_ + token.size();
    return !is_letter(token.back()) || after == text_.size() || !is_of_name(text_[after]);
  }
  bool take(std::string_view token) {
    if (!is_next(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) refuse(formatted("'{}'", token));
  }

  const OperatorRow* next_operator() {
    for (const OperatorRow& row : kOperators) {
      if (is_next(row.text)) return &row;
    }
    return nullptr;
  }

  SizeExpression expression(int least) {
    SizeExpression left = least <= kBindingOfNot && take("not")
                              ? make_size(SizeOp::kNot, {nested(kBindingOfNot)})
                              : signed_operand();
    for (;;) {
      const OperatorRow* row = next_operator();
      if (!row || row->binding < least) return left;
      if (row->binding == kBindingOfPower) {
        at_ += row->text.size();
        left = make_size(SizeOp::kPythonPower, {std::move(left), exponent()});
      } else if (row->binding == kBindingOfComparison) {
        left = comparisons(std::move(left));
      } else if (row->op == SizeOp::kSum || row->op == SizeOp::kProduct ||
                 row->op == SizeOp::kAnd || row->op == SizeOp::kOr) {
        left = joined(std::move(left), row->op);
      } else {
        at_ += row->text.size();
        left = make_size(row->op, {std::move(left), expression(row->binding + 1)});
      }
    }
  }

  SizeExpression nested(int least) {
    const Level level(*this);
    return expression(least);
  }

  SizeExpression joined(SizeExpression first, SizeOp op) {
    std::vector<SizeExpression> parts = {std::move(first)};
    for (const OperatorRow* row = next_operator(); row && row->op == op; row = next_operator()) {
      at_ += row->text.size();
      SizeExpression part = expression(row->binding + 1);
      parts.push_back(row->text == "-" ? make_size(SizeOp::kProduct, {-1, std::move(part)})
                                       : std::move(part));
    }
    return make_size(op, std::move(parts));
  }

  // "a < b <= c" is "a < b and b <= c".
  SizeExpression comparisons(SizeExpression left) {
    std::vector<SizeExpression> all;
    for (const OperatorRow* row = next_operator(); row && row->binding == kBindingOfComparison;
         row = next_operator()) {
      at_ += row->text.size();
      SizeExpression right = expression(kBindingOfComparison + 1);
      all.push_back(make_size(row->op, {left, right}));
      left = std::move(right);
    }
    return make_size(SizeOp::kAnd, std::move(all));
  }

  SizeExpression signed_operand() {
    if (take("-")) {
      const Level level(*this);
      return make_size(SizeOp::kProduct, {-1, powers()});
    }
    if (take("~")) {
      const Level level(*this);
      SizeExpression condition = signed_operand();
      if (!is_truth(condition)) refuse_size("'~' stands before something that is not a condition");
      return make_size(SizeOp::kNot, {std::move(condition)});
    }
    if (take("+")) {
      const Level level(*this);
      return powers();
    }
    return operand();
  }

  SizeExpression powers() {
    SizeExpression base = signed_operand();
    if (!take("**")) return base;
    return make_size(SizeOp::kPythonPower, {std::move(base), exponent()});
  }
  SizeExpression exponent() {
    const Level level(*this);
    return powers();
  }

  SizeExpression operand() {
    skip_blanks();
    if (at_ == text_.size()) refuse("number or name");
    const char next = text_[at_];
    if (next == '(') {
      ++at_;
      SizeExpression inner = nested(0);
      expect(")");
      return inner;
    }
    if (is_digit(next)) return number(number_text());
    if (!is_letter(next)) refuse("number or name");
    const std::string_view name = dotted_name();
    if (name == "L" && is_next("[")) return size_of_input();
    if (is_next("(")) return call(name);
    if (name == "True" || name == "true") return 1;
    if (name == "False" || name == "false") return 0;
    static constexpr std::string_view kNoSymbols[] = {"None", "and", "or",  "not", "if",
                                                      "else", "in",  "is",  "oo",  "int_oo",
                                                      "nan",  "zoo", "for", "L",   "lambda"};
    if (std::ranges::find(kNoSymbols, name) != std::end(kNoSymbols))
      refuse_size(formatted("'{}' is not a size", name));
    return make_symbol(std::string(name));
  }

  std::string_view dotted_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_of_name(text_[at_]) || text_[at_] == '.')) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string_view number_text() {
    const std::size_t begin = at_;
    const auto digits = [&] {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    };
    digits();
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      digits();
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      digits();
    }
    return text_.substr(begin, at_ - begin);
  }

  static SizeExpression number(std::string_view digits) {
    if (digits.find_first_of(".eE") == std::string_view::npos) {
      std::int64_t value = 0;
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error != std::errc() || end != digits.data() + digits.size())
        refuse_size(formatted("'{}' is not a whole number of 64 bits", digits));
      return value;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      refuse_size(formatted("'{}' is not a number", digits));
    return make_constant(SizeNumber::real(value));
  }

  std::string_view quoted() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') refuse("text in quotes");
    const std::size_t begin = ++at_, end = text_.find(quote, begin);
    if (end == std::string_view::npos) refuse("end of the text in quotes");
    at_ = end + 1;
    const std::string_view text = text_.substr(begin, end - begin);
    if (text.find('\\') != std::string_view::npos) refuse("plain text in quotes");
    return text;
  }

  SizeExpression call(std::string_view name) {
    const Level level(*this);
    expect("(");
    if (name == "Symbol" || name == "Float") {
      const std::string_view text = quoted();
      while (take(",")) named_argument();
      expect(")");
      if (name == "Float") return number_or_float(text);
      if (text.empty() || !is_letter(text[0]) || !std::ranges::all_of(text, is_of_name))
        refuse_size(formatted("'{}' is not the symbol of a size", text));
      return make_symbol(std::string(text));
    }
    std::vector<SizeExpression> arguments;
    if (!is_next(")")) {
      do {
        if (!named_argument()) arguments.push_back(expression(0));
      } while (take(","));
    }
    expect(")");
    return call_size_function(name, std::move(arguments));
  }

  static SizeExpression number_or_float(std::string_view text) {
    const bool is_negative = text.starts_with('-');
    if (is_negative) text.remove_prefix(1);
    if (text.empty() || !is_digit(text[0])) refuse_size(formatted("'{}' is not a number", text));
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      refuse_size(formatted("'{}' is not a number", text));
    return make_constant(SizeNumber::real(is_negative ? -value : value));
  }

  // Skips "integer=True", which does not affect the value.
  bool named_argument() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    const bool has_name = at_ > begin && is_next("=") && !is_next("==");
    if (!has_name) {
      at_ = begin;
      return false;
    }
    ++at_;
    skip_blanks();
    while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    return true;
  }

  // Parses "L['x'].size()[0]", "L['rest'][1]['y'].size()[0]" or "L['count']" after the L.
  SizeExpression size_of_input() {
    std::string name;
    while (take("[")) {
      skip_blanks();
      const bool is_text = at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"');
      const std::string_view part = is_text ? quoted() : number_text();
      expect("]");
      if (part.empty() || !std::ranges::all_of(part, is_of_name)) refuse("name of an input");
      if (!name.empty()) name += '_';
      name += part;
    }
    if (is_digit(name[0])) refuse("name of an input");
    if (!take(".")) return make_symbol(std::move(name));
    if (take("size")) {
      expect("(");
      expect(")");
    } else if (!take("shape")) {
      refuse("'size()'");
    }
    expect("[");
    const std::string_view dimension = number_text();
    if (dimension.empty() || !std::ranges::all_of(dimension, is_digit)) refuse("dimension");
    expect("]");
    return make_symbol(name + "." + std::string(dimension));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

SizeExpression parse_size_text(std::string_view text) {
  if (text.size() > kMaxSizeText) {
    refuse_size(formatted("an expression of sizes has {} bytes, beyond the limit of {}",
                          text.size(), kMaxSizeText));
  }
  return SizeParser(text).parse();
}

}  // namespace sluice::detail
