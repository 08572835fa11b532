#include "archive/size_expression.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "archive/size_node.h"
#include "base/format.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using Values = const SymbolValues*;  // nullptr if all are constants

SizeNumber value_of(const SizeExpression& expression, Values values);

SizeNumber real_function(SizeOp op, const SizeNumber& of) {
  const double x = of.as_real();
  switch (op) {
    case SizeOp::kSquareRoot:
      return SizeNumber::real(std::sqrt(x));
    case SizeOp::kSine:
      return SizeNumber::real(std::sin(x));
    case SizeOp::kCosine:
      return SizeNumber::real(std::cos(x));
    case SizeOp::kTangent:
      return SizeNumber::real(std::tan(x));
    case SizeOp::kSinh:
      return SizeNumber::real(std::sinh(x));
    case SizeOp::kCosh:
      return SizeNumber::real(std::cosh(x));
    case SizeOp::kTanh:
      return SizeNumber::real(std::tanh(x));
    case SizeOp::kArcSine:
      return SizeNumber::real(std::asin(x));
    case SizeOp::kArcCosine:
      return SizeNumber::real(std::acos(x));
    case SizeOp::kArcTangent:
      return SizeNumber::real(std::atan(x));
    case SizeOp::kExponential:
      return SizeNumber::real(std::exp(x));
    case SizeOp::kLogarithm:
      return SizeNumber::real(std::log(x));
    case SizeOp::kLogarithm2:
      return SizeNumber::real(std::log2(x));
    default:
      return SizeNumber::real(x);
  }
}

SizeNumber value_of(const SizeExpression::Node& node, Values values) {
  const auto operand = [&](std::size_t i) { return value_of(node.of[i], values); };
  const auto folded = [&](auto join) {
    SizeNumber result = operand(0);
    for (std::size_t i = 1; i < node.of.size(); ++i) result = join(result, operand(i));
    return result;
  };
  const auto all_are = [&](bool wanted) {
    return std::ranges::all_of(node.of, [&](const SizeExpression& each) {
      return value_of(each, values).is_true() == wanted;
    });
  };
  switch (node.op) {
    case SizeOp::kConstant:
      return node.constant;
    case SizeOp::kSymbol: {
      const auto found = values->find(node.symbol);
      if (found == values->end()) refuse_size("the size '" + node.symbol + "' has no value");
      return found->second;
    }
    case SizeOp::kSum:
      return folded([](const SizeNumber& a, const SizeNumber& b) { return a + b; });
    case SizeOp::kProduct:
      return folded([](const SizeNumber& a, const SizeNumber& b) { return a * b; });
    case SizeOp::kMax:
      return folded([](const SizeNumber& a, const SizeNumber& b) { return a < b ? b : a; });
    case SizeOp::kMin:
      return folded([](const SizeNumber& a, const SizeNumber& b) { return b < a ? b : a; });
    case SizeOp::kQuotient:
      return operand(0) / operand(1);
    case SizeOp::kTrueQuotient:
      return true_quotient(operand(0), operand(1));
    case SizeOp::kFloorQuotient:
      return floor_quotient(operand(0), operand(1));
    case SizeOp::kModulo:
      return modulo(operand(0), operand(1));
    case SizeOp::kPower:
      return power(operand(0), operand(1));
    case SizeOp::kPythonPower:
      return python_power(operand(0), operand(1));
    case SizeOp::kFloor:
      return floor(operand(0));
    case SizeOp::kCeiling:
      return ceiling(operand(0));
    case SizeOp::kTruncated:
      return truncated(operand(0));
    case SizeOp::kRounded:
      return rounded(operand(0));
    case SizeOp::kRoundedTo:
      return rounded_to(operand(0), operand(1));
    case SizeOp::kMagnitude: {
      const SizeNumber of = operand(0);
      return of < SizeNumber(0) ? SizeNumber(-1) * of : of;
    }
    case SizeOp::kBitAnd:
      return operand(0).whole() & operand(1).whole();
    case SizeOp::kBitOr:
      return operand(0).whole() | operand(1).whole();
    case SizeOp::kBitXor:
      return operand(0).whole() ^ operand(1).whole();
    case SizeOp::kWhere:
      return operand(0).is_true() ? operand(1) : operand(2);
    case SizeOp::kEqual:
      return operand(0) == operand(1);
    case SizeOp::kNotEqual:
      return !(operand(0) == operand(1));
    case SizeOp::kLess:
      return operand(0) < operand(1);
    case SizeOp::kLessEqual:
      return !(operand(1) < operand(0));
    case SizeOp::kGreater:
      return operand(1) < operand(0);
    case SizeOp::kGreaterEqual:
      return !(operand(0) < operand(1));
    case SizeOp::kAnd:
      return all_are(true);
    case SizeOp::kOr:
      return !all_are(false);
    case SizeOp::kNot:
      return !operand(0).is_true();
    default:
      return real_function(node.op, operand(0));
  }
}

SizeNumber value_of(const SizeExpression& expression, Values values) {
  return expression.node() ? value_of(*expression.node(), values) : expression.number();
}

bool same(const SizeExpression::Node& a, const SizeExpression::Node& b) {
  return &a == &b ||
         (a.op == b.op && a.symbol == b.symbol && a.constant.is_real() == b.constant.is_real() &&
          a.constant == b.constant && a.of == b.of);
}

// A sympy power equals Python's ** only for exponents >= 0.
bool uses_python_power(const SizeExpression::Node& node) {
  return node.op == SizeOp::kPythonPower || (node.of[1].is_number() && node.of[1].number() >= 0);
}

int binding(SizeOp op) {
  switch (op) {
    case SizeOp::kOr:
      return 1;
    case SizeOp::kAnd:
      return 2;
    case SizeOp::kNot:
      return 3;
    case SizeOp::kEqual:
    case SizeOp::kNotEqual:
    case SizeOp::kLess:
    case SizeOp::kLessEqual:
    case SizeOp::kGreater:
    case SizeOp::kGreaterEqual:
      return 4;
    case SizeOp::kSum:
      return 8;
    case SizeOp::kProduct:
    case SizeOp::kTrueQuotient:
    case SizeOp::kFloorQuotient:
    case SizeOp::kModulo:
      return 9;
    case SizeOp::kPower:
    case SizeOp::kPythonPower:
      return 11;
    default:
      return 12;
  }
}

std::string_view word_of(SizeOp op) {
  switch (op) {
    case SizeOp::kOr:
      return " or ";
    case SizeOp::kAnd:
      return " and ";
    case SizeOp::kEqual:
      return " == ";
    case SizeOp::kNotEqual:
      return " != ";
    case SizeOp::kLess:
      return " < ";
    case SizeOp::kLessEqual:
      return " <= ";
    case SizeOp::kGreater:
      return " > ";
    case SizeOp::kGreaterEqual:
      return " >= ";
    case SizeOp::kSum:
      return " + ";
    case SizeOp::kProduct:
      return "*";
    case SizeOp::kQuotient:
      return "Rational";
    case SizeOp::kTrueQuotient:
      return "/";
    case SizeOp::kFloorQuotient:
      return "//";
    case SizeOp::kModulo:
      return " % ";
    case SizeOp::kPower:
    case SizeOp::kPythonPower:
      return "**";
    case SizeOp::kMax:
      return "Max";
    case SizeOp::kMin:
      return "Min";
    case SizeOp::kFloor:
      return "floor";
    case SizeOp::kCeiling:
      return "ceiling";
    case SizeOp::kTruncated:
      return "trunc";
    case SizeOp::kRounded:
      return "round";
    case SizeOp::kRoundedTo:
      return "RoundDecimal";
    case SizeOp::kReal:
      return "float";
    case SizeOp::kMagnitude:
      return "abs";
    case SizeOp::kSquareRoot:
      return "sqrt";
    case SizeOp::kSine:
      return "OpaqueUnaryFn_sin";
    case SizeOp::kCosine:
      return "OpaqueUnaryFn_cos";
    case SizeOp::kTangent:
      return "OpaqueUnaryFn_tan";
    case SizeOp::kSinh:
      return "OpaqueUnaryFn_sinh";
    case SizeOp::kCosh:
      return "OpaqueUnaryFn_cosh";
    case SizeOp::kTanh:
      return "OpaqueUnaryFn_tanh";
    case SizeOp::kArcSine:
      return "OpaqueUnaryFn_asin";
    case SizeOp::kArcCosine:
      return "OpaqueUnaryFn_acos";
    case SizeOp::kArcTangent:
      return "OpaqueUnaryFn_atan";
    case SizeOp::kExponential:
      return "OpaqueUnaryFn_exp";
    case SizeOp::kLogarithm:
      return "OpaqueUnaryFn_log";
    case SizeOp::kLogarithm2:
      return "OpaqueUnaryFn_log2";
    case SizeOp::kBitAnd:
      return "BitwiseFn_bitwise_and";
    case SizeOp::kBitOr:
      return "BitwiseFn_bitwise_or";
    case SizeOp::kBitXor:
      return "BitwiseFn_bitwise_xor";
    case SizeOp::kWhere:
      return "Where";
    case SizeOp::kNot:
    case SizeOp::kConstant:
    case SizeOp::kSymbol:
      break;
  }
  return "";
}

struct Written {
  std::string text;
  int binding;
};

Written written(const SizeExpression& expression) {
  if (!expression.node())
    return {formatted("{}", expression.number()), expression.number() < 0 ? 10 : 12};
  const SizeExpression::Node& node = *expression.node();
  if (node.op == SizeOp::kSymbol) return {node.symbol, 12};
  if (node.op == SizeOp::kConstant && node.constant.is_real()) return {node.constant.text(), 10};
  if (node.op == SizeOp::kConstant) {
    std::string fraction = node.constant.text();
    fraction.replace(fraction.find('/'), 1, ", ");
    return {"Rational(" + fraction + ")", 12};
  }
  const bool uses_sympy_power = node.op == SizeOp::kPower && !uses_python_power(node);
  const int own = uses_sympy_power ? 12 : binding(node.op);
  const auto operand = [&](std::size_t i) {
    Written part = written(node.of[i]);
    return part.binding > own ? part.text : "(" + part.text + ")";
  };
  if (node.op == SizeOp::kNot) return {"not " + operand(0), own};
  std::string text;
  if (own == 12) {
    text = std::string(uses_sympy_power ? "Pow" : word_of(node.op)) + "(";
    for (std::size_t i = 0; i < node.of.size(); ++i)
      text += (i == 0 ? "" : ", ") + written(node.of[i]).text;
    return {text + ")", own};
  }
  for (std::size_t i = 0; i < node.of.size(); ++i) {
    std::string part = operand(i);
    if (node.op == SizeOp::kProduct && i == 0 && part == "-1") {
      text = "-";
    } else if (i == 0 || text == "-") {
      text += part;
    } else if (node.op == SizeOp::kSum && part.front() == '-') {
      text += " - " + part.substr(1);
    } else {
      text += word_of(node.op);
      text += part;
    }
  }
  return {text, own};
}

}  // namespace

void refuse_size(const std::string& what) {
  throw Error(ErrorKind::kInput,
              {.what = what, .remedy = "use other sizes, or export the model again"});
}

bool is_condition(SizeOp op) { return op >= SizeOp::kEqual; }

SizeExpression make_constant(const SizeNumber& number) {
  if (number.is_whole()) return number.whole();
  if (number.is_real() && !std::isfinite(number.as_real()))
    refuse_size("a number of an expression of sizes is not finite");
  auto node = std::make_shared<SizeExpression::Node>();
  node->constant = number;
  return SizeExpression(std::move(node));
}

SizeExpression make_symbol(std::string name) {
  auto node = std::make_shared<SizeExpression::Node>();
  node->op = SizeOp::kSymbol;
  node->symbol = std::move(name);
  return SizeExpression(std::move(node));
}

bool is_truth(const SizeExpression& expression) {
  return expression.node() ? is_condition(expression.node()->op)
                           : expression.number() == 0 || expression.number() == 1;
}

SizeExpression make_size(SizeOp op, std::vector<SizeExpression> of) {
  // sympy writes "and" and "or" of conditions as bit operations.
  if ((op == SizeOp::kBitAnd || op == SizeOp::kBitOr) && std::ranges::all_of(of, is_truth))
    op = op == SizeOp::kBitAnd ? SizeOp::kAnd : SizeOp::kOr;
  const bool is_joining = op == SizeOp::kSum || op == SizeOp::kProduct || op == SizeOp::kAnd ||
                          op == SizeOp::kOr || op == SizeOp::kMax || op == SizeOp::kMin;
  if (is_joining && of.size() == 1) return of[0];
  auto node = std::make_shared<SizeExpression::Node>();
  node->op = op;
  bool is_constant = true;
  for (SizeExpression& operand : of) {
    const SizeExpression::Node* below = operand.node();
    if (is_joining && below && below->op == op) {
      node->of.insert(node->of.end(), below->of.begin(), below->of.end());
      is_constant = false;
      continue;
    }
    is_constant = is_constant && (!below || below->op == SizeOp::kConstant);
    node->of.push_back(std::move(operand));
  }
  if (is_constant) return make_constant(value_of(*node, nullptr));
  for (const SizeExpression& operand : node->of)
    node->depth = std::max(node->depth, operand.node() ? operand.node()->depth + 1 : 2);
  if (node->depth > kMaxSizeDepth)
    refuse_size(formatted("an expression of sizes is deeper than {}", kMaxSizeDepth));
  return SizeExpression(std::move(node));
}

SizeExpression SizeExpression::parse(std::string_view text) { return parse_size_text(text); }

std::optional<std::string> SizeExpression::symbol() const {
  if (node_ && node_->op == SizeOp::kSymbol) return node_->symbol;
  return std::nullopt;
}

void SizeExpression::add_symbols(std::set<std::string>& to) const {
  if (!node_) return;
  if (node_->op == SizeOp::kSymbol) to.insert(node_->symbol);
  for (const SizeExpression& operand : node_->of) operand.add_symbols(to);
}

std::int64_t SizeExpression::at(const SymbolValues& values) const {
  return node_ ? value_of(*node_, &values).whole() : number_;
}

std::string SizeExpression::text() const { return written(*this).text; }

bool operator==(const SizeExpression& a, const SizeExpression& b) {
  if (!a.node_ || !b.node_) return !a.node_ && !b.node_ && a.number_ == b.number_;
  return same(*a.node_, *b.node_);
}

SizeRule SizeRule::parse(std::string_view text) {
  SizeRule rule;
  rule.condition_ = parse_size_text(text);
  rule.text_ = text;
  if (!is_truth(rule.condition_)) refuse_size("a rule of sizes has no comparison");
  rule.condition_.add_symbols(rule.symbols_);
  return rule;
}

bool SizeRule::holds(const SymbolValues& values) const { return condition_.at(values) != 0; }

}  // namespace sluice::detail
