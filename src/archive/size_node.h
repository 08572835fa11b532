// The nodes of an expression of sizes, for the sources that read it and work it out.
//
// Owns: the kinds of node with the names that archives have for them, making nodes.
// Does not own: texts (size_parser.cpp), values (size_expression.cpp).
// Invariants: constant operands are worked out where a node is made; sums and products are flat; no
// node has more than kMaxSizeDepth below it.
// Thread-safety: values; pure functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "archive/size_expression.h"
#include "archive/size_number.h"

namespace sluice::detail {

inline constexpr int kMaxSizeDepth = 64;
inline constexpr std::size_t kMaxSizeText = 64 << 10;

enum class SizeOp : std::uint8_t {
  kConstant,  // a fraction or a float: a whole number has no node
  kSymbol,
  kSum,
  kProduct,
  kQuotient,       // sympy's: exact
  kTrueQuotient,   // Python's /: a float
  kFloorQuotient,  // Python's //
  kModulo,
  kPower,        // sympy's: exact where the exponent is whole
  kPythonPower,  // Python's **
  kMax,
  kMin,
  kFloor,
  kCeiling,
  kTruncated,
  kRounded,
  kRoundedTo,  // so many decimals
  kReal,       // as a float
  kMagnitude,
  kSquareRoot,
  kSine,
  kCosine,
  kTangent,
  kSinh,
  kCosh,
  kTanh,
  kArcSine,
  kArcCosine,
  kArcTangent,
  kExponential,
  kLogarithm,
  kLogarithm2,
  kBitAnd,
  kBitOr,
  kBitXor,
  kWhere,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kNot,
};

struct SizeExpression::Node {
  SizeOp op = SizeOp::kConstant;
  std::string symbol;
  SizeNumber constant;
  std::vector<SizeExpression> of;
  int depth = 1;
};

// A comparison, or what joins them.
bool is_condition(SizeOp op);
bool is_truth(const SizeExpression& expression);  // also 0 and 1

// All throw Error(kInput) without a place, as SizeExpression::at() does.
SizeExpression make_constant(const SizeNumber& number);
SizeExpression make_symbol(std::string name);
SizeExpression make_size(SizeOp op, std::vector<SizeExpression> of);
// A function by the name that an archive has: "FloorDiv", "Max", "math.ceil". Throws also for one
// that is not known, and for another count of arguments than it takes.
SizeExpression call_size_function(std::string_view name, std::vector<SizeExpression> arguments);

// The parser of SizeExpression and SizeRule.
SizeExpression parse_size_text(std::string_view text);

[[noreturn]] void refuse_size(const std::string& what);

}  // namespace sluice::detail
