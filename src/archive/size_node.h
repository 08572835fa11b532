// Expression tree of SizeExpression. Constant subexpressions are evaluated at once. Sums and
// products are flattened.
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
  kConstant,  // fraction or float
  kSymbol,
  kSum,
  kProduct,
  kQuotient,       // sympy's, exact
  kTrueQuotient,   // Python's /, a float
  kFloorQuotient,  // Python's //
  kModulo,
  kPower,        // sympy's, exact for integer exponents
  kPythonPower,  // Python's **
  kMax,
  kMin,
  kFloor,
  kCeiling,
  kTruncated,
  kRounded,
  kRoundedTo,
  kReal,
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

// Whether the operator compares, or joins comparisons.
bool is_condition(SizeOp op);
bool is_truth(const SizeExpression& expression);  // a condition, 0 or 1

// The functions below throw Error(kInput), without a file.
SizeExpression make_constant(const SizeNumber& number);
SizeExpression make_symbol(std::string name);
SizeExpression make_size(SizeOp op, std::vector<SizeExpression> of);
// `name` is from the archive: "FloorDiv".
SizeExpression call_size_function(std::string_view name, std::vector<SizeExpression> arguments);

SizeExpression parse_size_text(std::string_view text);

[[noreturn]] void refuse_size(const std::string& what);

}  // namespace sluice::detail
