#include <algorithm>

#include "data/template/filters.h"
#include "data/template/letters.h"
#include "data/template/operators.h"
#include "data/template/value_text.h"

namespace sluice::data::jinja {
namespace {

template <const char* operation>
bool compares(const Value& subject, const Bound& bound, Meter& meter) {
  return compared(operation, subject, bound.required(0), meter);
}
constexpr char kEqual[] = "==", kUnequal[] = "!=", kBelow[] = "<", kAtMost[] = "<=", kAbove[] = ">",
               kAtLeast[] = ">=", kIn[] = "in";

template <typename T>
bool holds_type(const Value& subject, const Bound&, Meter&) {
  return is<T>(subject);
}
template <bool flag>
bool is_flag(const Value& subject, const Bound&, Meter&) {
  const bool* value = std::get_if<bool>(&subject);
  return value && *value == flag;
}
template <std::int64_t rest>
bool has_rest(const Value& subject, const Bound&, Meter& meter) {
  return equal(combined("%", subject, std::int64_t{2}, meter), rest, meter);
}

bool is_defined(const Value& subject, const Bound&, Meter&) { return !is<Undefined>(subject); }
bool is_any_number(const Value& subject, const Bound&, Meter&) {
  double number = 0;
  return is_number(subject, number);
}
bool is_mapping(const Value& subject, const Bound&, Meter&) { return dict_in(subject) != nullptr; }
bool is_callable(const Value& subject, const Bound&, Meter&) {
  return is<Undefined>(subject) || is<Callable>(subject) || is<const Closure*>(subject);
}
bool is_iterable(const Value& subject, const Bound&, Meter&) {
  return is<Undefined>(subject) || text_in(subject) || list_in(subject) || dict_in(subject) ||
         is<Loop*>(subject);
}
bool is_sequence(const Value& subject, const Bound&, Meter&) {
  const List* list = list_in(subject);
  return is<Undefined>(subject) || text_in(subject) || dict_in(subject) ||
         (list && list->kind <= ListKind::kRange);
}
bool is_same(const Value& subject, const Bound& bound, Meter& meter) {
  const Value& other = bound.required(0);
  const bool has_constant =
      is<bool>(subject) || is<None>(subject) || is<bool>(other) || is<None>(other);
  if (!has_constant) fail("'sameas' of values other than true, false and none is not supported");
  return subject.index() == other.index() && equal(subject, other, meter);
}
bool is_divisible(const Value& subject, const Bound& bound, Meter& meter) {
  return equal(combined("%", subject, bound.required(0), meter), std::int64_t{0}, meter);
}

const std::vector<Test>& tests() {
  static const std::vector<Test> all = {{"defined", {}, is_defined},
                                        {"undefined", {}, holds_type<Undefined>},
                                        {"none", {}, holds_type<None>},
                                        {"boolean", {}, holds_type<bool>},
                                        {"true", {}, is_flag<true>},
                                        {"false", {}, is_flag<false>},
                                        {"integer", {}, holds_type<std::int64_t>},
                                        {"float", {}, holds_type<double>},
                                        {"number", {}, is_any_number},
                                        {"string", {}, holds_type<Text>},
                                        {"mapping", {}, is_mapping},
                                        {"sequence", {}, is_sequence},
                                        {"iterable", {}, is_iterable},
                                        {"callable", {}, is_callable},
                                        {"odd", {}, has_rest<1>},
                                        {"even", {}, has_rest<0>},
                                        {"divisibleby", {"num"}, is_divisible},
                                        {"sameas", {"other"}, is_same},
                                        {"in", {"seq"}, compares<kIn>},
                                        {"eq", {"other"}, compares<kEqual>},
                                        {"equalto", {"other"}, compares<kEqual>},
                                        {"==", {"other"}, compares<kEqual>},
                                        {"ne", {"other"}, compares<kUnequal>},
                                        {"!=", {"other"}, compares<kUnequal>},
                                        {"lt", {"other"}, compares<kBelow>},
                                        {"lessthan", {"other"}, compares<kBelow>},
                                        {"<", {"other"}, compares<kBelow>},
                                        {"le", {"other"}, compares<kAtMost>},
                                        {"<=", {"other"}, compares<kAtMost>},
                                        {"gt", {"other"}, compares<kAbove>},
                                        {"greaterthan", {"other"}, compares<kAbove>},
                                        {">", {"other"}, compares<kAbove>},
                                        {"ge", {"other"}, compares<kAtLeast>},
                                        {">=", {"other"}, compares<kAtLeast>}};
  return all;
}

}  // namespace

const Test* find_test(std::string_view name) {
  const auto found = std::find_if(tests().begin(), tests().end(),
                                  [&](const Test& test) { return test.name == name; });
  return found == tests().end() ? nullptr : &*found;
}

std::vector<std::string> test_names() {
  std::vector<std::string> names;
  for (const Test& test : tests()) names.emplace_back(test.name);
  return names;
}

bool passes(const Test& test, const Value& subject, const Arguments& arguments, Meter& meter) {
  meter.spend(1);
  return test.call(subject, Bound(arguments, test.parameters, test.name), meter);
}

}  // namespace sluice::data::jinja
