#include "data/template/operators.h"

#include <cmath>
#include <limits>

#include "base/format.h"

namespace sluice::data::jinja {
namespace {

[[noreturn]] void refuse_types(const std::string& operation, const Value& a, const Value& b) {
  const Undefined* undefined = std::get_if<Undefined>(&a);
  if (!undefined) undefined = std::get_if<Undefined>(&b);
  if (undefined) fail(formatted("{}, so '{}' has no value", undefined->what, operation));
  fail(formatted("'{}' does not combine values of the types {} and {}", operation, type_name(a),
                 type_name(b)));
}

[[noreturn]] void refuse_size() { fail("an integer of more than 63 bits is not supported"); }

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  if (base == 1 || exponent == 0) return 1;
  if (base == 0) return 0;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) refuse_size();
  return result;
}

Value of_integers(const std::string& operation, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  const bool divides = operation == "//" || operation == "%";
  if ((divides || operation == "/") && b == 0) fail("a number is divided by 0");
  if (divides && a == std::numeric_limits<std::int64_t>::min() && b == -1) refuse_size();
  if (operation == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (divides) {
    const std::int64_t rest = a % b, correction = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
    return operation == "%" ? rest + correction * b : a / b - correction;
  }
  if (operation == "**" && a == 0 && b < 0) fail("a number is divided by 0");
  if (operation == "**")
    return b < 0 ? Value(std::pow(static_cast<double>(a), static_cast<double>(b)))
                 : Value(power(a, b));
  const bool is_too_large = operation == "+"   ? __builtin_add_overflow(a, b, &result)
                            : operation == "-" ? __builtin_sub_overflow(a, b, &result)
                                               : __builtin_mul_overflow(a, b, &result);
  if (is_too_large) refuse_size();
  return result;
}

Value of_reals(const std::string& operation, double a, double b) {
  if (operation == "+") return a + b;
  if (operation == "-") return a - b;
  if (operation == "*") return a * b;
  if (operation == "**" && a < 0 && b != std::floor(b))
    fail("a power that is not a real number is not supported");
  if (operation == "**" && (a != 0 || b >= 0)) {
    const double power = std::pow(a, b);
    if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) fail("a number is too large");
    return power;
  }
  if (b == 0) fail("a number is divided by 0");
  if (operation == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return operation == "%" ? rest : std::round((a - rest) / b);
}

Value repeated(const Value& value, std::int64_t times, Meter& meter) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  const std::string* text = text_in(value);
  const std::size_t size = text ? text->size() : list_in(value)->items.size();
  if (size > 0 && count > kMaxOutputBytes / size) meter.require_size(kMaxOutputBytes + 1);
  if (text) {
    std::string made;
    meter.require_size(size * count);
    for (std::size_t i = 0; i < count && size > 0; ++i) made += *text;
    return text_value(std::move(made));
  }
  meter.spend(4 * size * count);
  std::vector<Value> items;
  for (std::size_t i = 0; i < count && size > 0; ++i)
    items.insert(items.end(), list_in(value)->items.begin(), list_in(value)->items.end());
  return list_value(std::move(items), list_in(value)->kind);
}

bool is_sequence(const Value& value) {
  const List* list = list_in(value);
  return text_in(value) || (list && list->kind <= ListKind::kTuple);
}

}  // namespace

Value combined(const std::string& operation, const Value& a, const Value& b, Meter& meter) {
  std::int64_t i = 0, j = 0;
  double x = 0, y = 0;
  if (is_integer(a, i) && is_integer(b, j)) return of_integers(operation, i, j);
  if (is_number(a, x) && is_number(b, y)) return of_reals(operation, x, y);
  for (const Value* value : {&a, &b}) {
    const Text* text = std::get_if<Text>(value);
    if (text && text->is_safe)
      fail(formatted("'{}' with a text that the filter 'safe' marked is not supported", operation),
           "use '~'");
  }
  if (operation == "%" && text_in(a)) fail("'%' with a text is not supported", kUnsupportedRemedy);
  if (operation == "*" && is_sequence(a) && is_integer(b, j)) return repeated(a, j, meter);
  if (operation == "*" && is_integer(a, i) && is_sequence(b)) return repeated(b, i, meter);
  if (operation != "+") refuse_types(operation, a, b);
  if (text_in(a) && text_in(b)) {
    meter.require_size(text_in(a)->size() + text_in(b)->size());
    return text_value(*text_in(a) + *text_in(b));
  }
  const List *list = list_in(a), *other = list_in(b);
  if (!list || !other || list->kind != other->kind || !is_sequence(a)) refuse_types("+", a, b);
  meter.spend(4 * (list->items.size() + other->items.size()));
  std::vector<Value> items = list->items;
  items.insert(items.end(), other->items.begin(), other->items.end());
  return list_value(std::move(items), list->kind);
}

bool compared(const std::string& operation, const Value& a, const Value& b, Meter& meter) {
  if (operation == "==") return equal(a, b, meter);
  if (operation == "!=") return !equal(a, b, meter);
  if (operation == "in") return contains(b, a, meter);
  if (operation == "not in") return !contains(b, a, meter);
  double x = 0, y = 0;
  if (is_number(a, x) && is_number(b, y) && (std::isnan(x) || std::isnan(y))) return false;
  const int sign = order(a, b, meter);
  if (operation == "<") return sign < 0;
  if (operation == "<=") return sign <= 0;
  return operation == ">" ? sign > 0 : sign >= 0;
}

Value negated(const Value& value) {
  std::int64_t integer = 0;
  double real = 0;
  if (is_integer(value, integer)) {
    if (integer == std::numeric_limits<std::int64_t>::min()) refuse_size();
    return -integer;
  }
  if (is_number(value, real)) return -real;
  fail("'-' does not negate a value of type " + type_name(value));
}

}  // namespace sluice::data::jinja
