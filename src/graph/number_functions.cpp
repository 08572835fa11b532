#include "graph/number_functions.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "archive/size_number.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using c10::IValue;
using Numbers = std::vector<IValue>;

[[noreturn]] void throw_arithmetic(const char* what) {
  throw Error(ErrorKind::kInput, {.what = what});
}

bool is_whole(const IValue& number) { return number.isInt() || number.isBool(); }

std::int64_t whole(const IValue& number) {
  return number.isBool() ? static_cast<std::int64_t>(number.toBool()) : number.toInt();
}

double real(const IValue& number) {
  return number.isDouble() ? number.toDouble() : static_cast<double>(whole(number));
}

bool truth(const IValue& number) {
  return number.isDouble() ? number.toDouble() != 0 : whole(number) != 0;
}

const IValue& at_least(const Numbers& numbers, std::size_t i) {
  if (i >= numbers.size()) throw_arithmetic("an operator on numbers lacks an argument");
  return numbers[i];
}

// Returns true on overflow.
using Whole = bool (*)(std::int64_t, std::int64_t, std::int64_t*);
using Real = double (*)(double, double);
template <Whole on_whole, Real on_real>
IValue arithmetic(const Numbers& numbers) {
  const IValue &a = at_least(numbers, 0), &b = at_least(numbers, 1);
  if (!is_whole(a) || !is_whole(b)) return on_real(real(a), real(b));
  std::int64_t result = 0;
  if (on_whole(whole(a), whole(b), &result)) throw_arithmetic("a size is beyond 64 bits");
  return result;
}

bool add_whole(std::int64_t a, std::int64_t b, std::int64_t* sum) {
  return __builtin_add_overflow(a, b, sum);
}
bool subtract_whole(std::int64_t a, std::int64_t b, std::int64_t* difference) {
  return __builtin_sub_overflow(a, b, difference);
}
bool multiply_whole(std::int64_t a, std::int64_t b, std::int64_t* product) {
  return __builtin_mul_overflow(a, b, product);
}
double add_real(double a, double b) { return a + b; }
double subtract_real(double a, double b) { return a - b; }
double multiply_real(double a, double b) { return a * b; }

// Rounds towards negative infinity, as in Python.
bool floor_divide_whole(std::int64_t a, std::int64_t b, std::int64_t* quotient) {
  if (b == 0) throw_arithmetic("a size is divided by 0");
  if (b == -1) return __builtin_sub_overflow(std::int64_t{0}, a, quotient);
  *quotient = a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
  return false;
}
double floor_divide_real(double a, double b) {
  if (b == 0) throw_arithmetic("a size is divided by 0");
  return floor_quotient(a, b);
}

// Has the divisor's sign, as in Python.
bool remainder_whole(std::int64_t a, std::int64_t b, std::int64_t* rest) {
  if (b == 0) throw_arithmetic("a size is divided by 0");
  *rest = b == -1 ? 0 : a % b;
  if (*rest != 0 && (*rest < 0) != (b < 0)) *rest += b;
  return false;
}
double remainder_real(double a, double b) {
  if (b == 0) throw_arithmetic("a size is divided by 0");
  return modulo(a, b);
}

bool power_whole(std::int64_t base, std::int64_t exponent, std::int64_t* power) {
  if (exponent < 0) throw_arithmetic("a size has a negative exponent");
  *power = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(*power, base, power)) return true;
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return true;
  }
  return false;
}

bool max_whole(std::int64_t a, std::int64_t b, std::int64_t* most) {
  *most = a > b ? a : b;
  return false;
}
bool min_whole(std::int64_t a, std::int64_t b, std::int64_t* least) {
  *least = a < b ? a : b;
  return false;
}
double max_real(double a, double b) { return a > b ? a : b; }
double min_real(double a, double b) { return a < b ? a : b; }
// Throws where Python throws (overflow, 0 to a negative power) or returns a complex root.
double power_real(double a, double b) {
  const double power = std::pow(a, b);
  if (!std::isfinite(power) && std::isfinite(a) && std::isfinite(b))
    throw_arithmetic("a power of a size is not a finite number");
  return power;
}

IValue true_divide(const Numbers& numbers) {
  const double divisor = real(at_least(numbers, 1));
  for (const IValue& number : {numbers[0], numbers[1]})
    if (is_whole(number) && !is_exact_in_float(whole(number)))
      throw_arithmetic("a quotient of sizes has a number above 2^53, which no float holds exactly");
  if (divisor == 0) throw_arithmetic("a size is divided by 0");
  return real(at_least(numbers, 0)) / divisor;
}

template <typename Compare>
IValue compare(const Numbers& numbers) {
  const IValue &a = at_least(numbers, 0), &b = at_least(numbers, 1);
  if (is_whole(a) && is_whole(b)) return Compare()(whole(a), whole(b));
  return Compare()(real(a), real(b));
}

template <typename Combine>
IValue combine(const Numbers& numbers) {
  const IValue &a = at_least(numbers, 0), &b = at_least(numbers, 1);
  const std::int64_t result = Combine()(whole(a), whole(b));
  if (a.isBool() && b.isBool()) return result != 0;
  return result;
}

IValue negative(const Numbers& numbers) {
  const IValue& number = at_least(numbers, 0);
  if (!is_whole(number)) return -real(number);
  std::int64_t result = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, whole(number), &result))
    throw_arithmetic("a size is beyond 64 bits");
  return result;
}

IValue negation(const Numbers& numbers) { return !truth(at_least(numbers, 0)); }
IValue choice(const Numbers& numbers) {
  return truth(at_least(numbers, 0)) ? at_least(numbers, 1) : at_least(numbers, 2);
}
IValue same(const Numbers& numbers) { return at_least(numbers, 0); }
IValue as_real(const Numbers& numbers) { return real(at_least(numbers, 0)); }
IValue square_root(const Numbers& numbers) {
  const double number = real(at_least(numbers, 0));
  if (number < 0) throw_arithmetic("a size below 0 has no square root");
  return std::sqrt(number);
}

template <Real on_real>
IValue rounded(const Numbers& numbers) {
  const IValue& number = at_least(numbers, 0);
  if (is_whole(number)) return whole(number);
  const double result = on_real(real(number), 0);
  if (!(std::abs(result) < 9.2e18)) throw_arithmetic("a size is beyond 64 bits");
  return static_cast<std::int64_t>(result);
}
double floor_real(double number, double) { return std::floor(number); }
double ceil_real(double number, double) { return std::ceil(number); }
double trunc_real(double number, double) { return std::trunc(number); }

IValue sum(const Numbers& numbers) {
  IValue total = std::int64_t{0};
  for (const IValue& number : numbers) {
    if (number.isIntList()) {
      for (const std::int64_t each : number.toIntList())
        total = arithmetic<add_whole, add_real>({total, each});
    } else {
      total = arithmetic<add_whole, add_real>({total, number});
    }
  }
  return total;
}

constexpr std::array<std::pair<std::string_view, NumberFunction>, 38> kFunctions{{
    {"_operator.add", arithmetic<add_whole, add_real>},
    {"_operator.sub", arithmetic<subtract_whole, subtract_real>},
    {"_operator.mul", arithmetic<multiply_whole, multiply_real>},
    {"_operator.floordiv", arithmetic<floor_divide_whole, floor_divide_real>},
    {"_operator.mod", arithmetic<remainder_whole, remainder_real>},
    {"_operator.pow", arithmetic<power_whole, power_real>},
    {"_operator.truediv", true_divide},
    {"_operator.neg", negative},
    {"_operator.pos", same},
    {"_operator.eq", compare<std::equal_to<>>},
    {"_operator.ne", compare<std::not_equal_to<>>},
    {"_operator.lt", compare<std::less<>>},
    {"_operator.le", compare<std::less_equal<>>},
    {"_operator.gt", compare<std::greater<>>},
    {"_operator.ge", compare<std::greater_equal<>>},
    {"_operator.and_", combine<std::bit_and<>>},
    {"_operator.or_", combine<std::bit_or<>>},
    {"_operator.xor", combine<std::bit_xor<>>},
    {"_operator.not_", negation},
    {"_operator.trunc", rounded<trunc_real>},
    {"builtins.max", arithmetic<max_whole, max_real>},
    {"builtins.min", arithmetic<min_whole, min_real>},
    {"torch.sym_max", arithmetic<max_whole, max_real>},
    {"torch.sym_min", arithmetic<min_whole, min_real>},
    {"torch.sym_not", negation},
    {"torch.sym_ite", choice},
    {"torch.sym_float", as_real},
    {"torch.sym_int", rounded<trunc_real>},
    {"torch.sym_sum", sum},
    {"torch.sym_sqrt", square_root},
    {"torch._sym_sqrt", square_root},
    {"math.sqrt", square_root},
    {"math.floor", rounded<floor_real>},
    {"math.ceil", rounded<ceil_real>},
    {"math.trunc", rounded<trunc_real>},
    {"builtins.int", rounded<trunc_real>},
    {"builtins.float", as_real},
    {"builtins.bool", [](const Numbers& numbers) { return IValue(truth(at_least(numbers, 0))); }},
}};

}  // namespace

NumberFunction number_function(std::string_view target) {
  for (const auto& [name, function] : kFunctions) {
    if (name == target) return function;
  }
  return nullptr;
}

}  // namespace sluice::detail
