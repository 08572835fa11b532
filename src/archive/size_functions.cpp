// Functions in size expressions, from torch (torch/utils/_sympy/functions.py), Python and sympy.
#include <algorithm>
#include <array>
#include <utility>

#include "archive/size_node.h"
#include "base/format.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

struct FunctionRow {
  std::string_view name;
  SizeOp op;
  std::size_t least, most;  // number of arguments
};
constexpr std::size_t kAny = 1 << 16;
constexpr FunctionRow kFunctions[] = {
    {"Abs", SizeOp::kMagnitude, 1, 1},
    {"Add", SizeOp::kSum, 1, kAny},
    {"And", SizeOp::kAnd, 1, kAny},
    {"BitwiseFn_bitwise_and", SizeOp::kBitAnd, 2, 2},
    {"BitwiseFn_bitwise_or", SizeOp::kBitOr, 2, 2},
    {"BitwiseFn_bitwise_xor", SizeOp::kBitXor, 2, 2},
    {"CeilToInt", SizeOp::kCeiling, 1, 1},
    {"CleanDiv", SizeOp::kFloorQuotient, 2, 2},
    {"Eq", SizeOp::kEqual, 2, 2},
    {"Equality", SizeOp::kEqual, 2, 2},
    {"FloatPow", SizeOp::kPythonPower, 2, 2},
    {"FloatTrueDiv", SizeOp::kTrueQuotient, 2, 2},
    {"FloorDiv", SizeOp::kFloorQuotient, 2, 2},
    {"FloorToInt", SizeOp::kFloor, 1, 1},
    {"Ge", SizeOp::kGreaterEqual, 2, 2},
    {"GreaterThan", SizeOp::kGreaterEqual, 2, 2},
    {"Gt", SizeOp::kGreater, 2, 2},
    {"IntTrueDiv", SizeOp::kTrueQuotient, 2, 2},
    {"Le", SizeOp::kLessEqual, 2, 2},
    {"LessThan", SizeOp::kLessEqual, 2, 2},
    {"Lt", SizeOp::kLess, 2, 2},
    {"Max", SizeOp::kMax, 1, kAny},
    {"Min", SizeOp::kMin, 1, kAny},
    {"Mod", SizeOp::kModulo, 2, 2},
    {"Mul", SizeOp::kProduct, 1, kAny},
    {"Ne", SizeOp::kNotEqual, 2, 2},
    {"Not", SizeOp::kNot, 1, 1},
    {"OpaqueUnaryFn_acos", SizeOp::kArcCosine, 1, 1},
    {"OpaqueUnaryFn_asin", SizeOp::kArcSine, 1, 1},
    {"OpaqueUnaryFn_atan", SizeOp::kArcTangent, 1, 1},
    {"OpaqueUnaryFn_cos", SizeOp::kCosine, 1, 1},
    {"OpaqueUnaryFn_cosh", SizeOp::kCosh, 1, 1},
    {"OpaqueUnaryFn_exp", SizeOp::kExponential, 1, 1},
    {"OpaqueUnaryFn_log", SizeOp::kLogarithm, 1, 1},
    {"OpaqueUnaryFn_log2", SizeOp::kLogarithm2, 1, 1},
    {"OpaqueUnaryFn_sin", SizeOp::kSine, 1, 1},
    {"OpaqueUnaryFn_sinh", SizeOp::kSinh, 1, 1},
    {"OpaqueUnaryFn_sqrt", SizeOp::kSquareRoot, 1, 1},
    {"OpaqueUnaryFn_tan", SizeOp::kTangent, 1, 1},
    {"OpaqueUnaryFn_tanh", SizeOp::kTanh, 1, 1},
    {"Or", SizeOp::kOr, 1, kAny},
    {"Pow", SizeOp::kPower, 2, 2},
    {"PowByNatural", SizeOp::kPower, 2, 2},
    {"PythonMod", SizeOp::kModulo, 2, 2},
    {"RoundDecimal", SizeOp::kRoundedTo, 2, 2},
    {"RoundToInt", SizeOp::kRounded, 1, 1},
    {"StrictGreaterThan", SizeOp::kGreater, 2, 2},
    {"StrictLessThan", SizeOp::kLess, 2, 2},
    {"ToFloat", SizeOp::kReal, 1, 1},
    {"TruncToInt", SizeOp::kTruncated, 1, 1},
    {"Unequality", SizeOp::kNotEqual, 2, 2},
    {"Where", SizeOp::kWhere, 3, 3},
    {"abs", SizeOp::kMagnitude, 1, 1},
    {"ceiling", SizeOp::kCeiling, 1, 1},
    {"float", SizeOp::kReal, 1, 1},
    {"floor", SizeOp::kFloor, 1, 1},
    {"int", SizeOp::kTruncated, 1, 1},
    {"math.ceil", SizeOp::kCeiling, 1, 1},
    {"math.floor", SizeOp::kFloor, 1, 1},
    {"math.sqrt", SizeOp::kSquareRoot, 1, 1},
    {"math.trunc", SizeOp::kTruncated, 1, 1},
    {"max", SizeOp::kMax, 1, kAny},
    {"min", SizeOp::kMin, 1, kAny},
    {"round", SizeOp::kRounded, 1, 1},
    {"sqrt", SizeOp::kSquareRoot, 1, 1},
    {"torch.sym_float", SizeOp::kReal, 1, 1},
    {"torch.sym_ite", SizeOp::kWhere, 3, 3},
    {"torch.sym_max", SizeOp::kMax, 2, 2},
    {"torch.sym_min", SizeOp::kMin, 2, 2},
    {"torch.sym_not", SizeOp::kNot, 1, 1},
    {"trunc", SizeOp::kTruncated, 1, 1},
};

struct ComposedRow {
  std::string_view name;
  std::size_t arguments;
  SizeExpression (*make)(std::vector<SizeExpression>& of);
};
const ComposedRow kComposed[] = {
    {"CeilDiv", 2,
     [](std::vector<SizeExpression>& of) {
       return make_size(SizeOp::kCeiling, {make_size(SizeOp::kQuotient, std::move(of))});
     }},
    {"Identity", 1, [](std::vector<SizeExpression>& of) { return of[0]; }},
    {"Integer", 1, [](std::vector<SizeExpression>& of) { return of[0]; }},
    {"LShift", 2,
     [](std::vector<SizeExpression>& of) {
       return make_size(SizeOp::kProduct, {of[0], make_size(SizeOp::kPower, {2, of[1]})});
     }},
    {"ModularIndexing", 3,
     [](std::vector<SizeExpression>& of) {
       return make_size(SizeOp::kModulo,
                        {make_size(SizeOp::kFloorQuotient, {of[0], of[1]}), of[2]});
     }},
    {"RShift", 2,
     [](std::vector<SizeExpression>& of) {
       return make_size(SizeOp::kFloorQuotient, {of[0], make_size(SizeOp::kPower, {2, of[1]})});
     }},
    {"Rational", 2,
     [](std::vector<SizeExpression>& of) { return make_size(SizeOp::kQuotient, std::move(of)); }},
    {"TruncToFloat", 1,
     [](std::vector<SizeExpression>& of) {
       return make_size(SizeOp::kReal, {make_size(SizeOp::kTruncated, std::move(of))});
     }},
};

}  // namespace

SizeExpression call_size_function(std::string_view name, std::vector<SizeExpression> arguments) {
  const auto refuse_count = [&] {
    refuse_size(formatted("the function {} of sizes has {} arguments", name, arguments.size()));
  };
  const auto row = std::ranges::lower_bound(kFunctions, name, {}, &FunctionRow::name);
  if (row != std::end(kFunctions) && row->name == name) {
    if (arguments.size() < row->least || arguments.size() > row->most) refuse_count();
    return make_size(row->op, std::move(arguments));
  }
  const auto composed = std::ranges::find(kComposed, name, &ComposedRow::name);
  if (composed == std::end(kComposed))
    refuse_size(formatted("the function '{}' of sizes is not supported", name));
  if (arguments.size() != composed->arguments) refuse_count();
  return composed->make(arguments);
}

}  // namespace sluice::detail
