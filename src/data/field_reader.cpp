#include "data/field_reader.h"

#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

struct FieldType {
  enum class Kind : std::uint8_t { kBool, kInteger, kFloat, kDouble };
  std::string_view name;
  Kind kind;
  std::int64_t least, most;
  double largest;  // larger floats would round to infinity
};

template <typename Integer>
constexpr FieldType integers(std::string_view name) {
  using Limits = std::numeric_limits<Integer>;
  return {name, FieldType::Kind::kInteger, Limits::min(), Limits::max(), 0};
}
constexpr FieldType reals(std::string_view name, double largest) {
  return {name, FieldType::Kind::kFloat, 0, 0, largest};
}

constexpr FieldType kFieldTypes[] = {
    {"bool", FieldType::Kind::kBool, 0, 1, 0},
    integers<std::uint8_t>("uint8"),
    integers<std::int8_t>("int8"),
    integers<std::int16_t>("int16"),
    integers<std::int32_t>("int32"),
    integers<std::int64_t>("int64"),
    reals("float16", 65504),
    reals("bfloat16", 0x1.fep127),
    reals("float32", std::numeric_limits<float>::max()),
    {"float64", FieldType::Kind::kDouble, 0, 0, std::numeric_limits<double>::max()},
};

const FieldType* type_named(std::string_view name) {
  for (const FieldType& type : kFieldTypes)
    if (type.name == name) return &type;
  return nullptr;
}

const FieldType& type_of(const FieldOption& field) { return *type_named(field.dtype); }

bool is_real(const FieldType& type) {
  return type.kind == FieldType::Kind::kFloat || type.kind == FieldType::Kind::kDouble;
}

FieldNumbers no_numbers(FieldType::Kind kind) {
  switch (kind) {
    case FieldType::Kind::kBool:
      return std::vector<std::uint8_t>();
    case FieldType::Kind::kInteger:
      return std::vector<std::int64_t>();
    case FieldType::Kind::kFloat:
      return std::vector<float>();
    case FieldType::Kind::kDouble:
      return std::vector<double>();
  }
  return {};
}

[[noreturn]] void refuse_fields(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage,
              {.what = what, .where = "TokenDataOptions::fields", .remedy = remedy});
}

}  // namespace

void check_fields(const std::vector<FieldOption>& fields, bool has_tokens) {
  std::set<std::string> names;
  for (const FieldOption& field : fields) {
    if (!names.insert(field.name).second)
      refuse_fields("'" + field.name + "' is named twice", "name each field once");
    if (!type_named(field.dtype)) {
      std::vector<std::string> known;
      for (const FieldType& type : kFieldTypes) known.emplace_back(type.name);
      refuse_fields(formatted("'{}' has the type {}, which numbers in rows cannot have", field.name,
                              field.dtype),
                    suggest_name(field.dtype, known));
    }
    for (const std::int64_t size : field.sizes) {
      if (size >= 0 || size == kAnySize || (size == kRowTokens && has_tokens)) continue;
      refuse_fields(formatted("'{}' has the size {}", field.name, size),
                    size == kRowTokens ? "rows without tokens have kAnySize"
                                       : "sizes are numbers, kAnySize or kRowTokens");
    }
  }
}

std::string field_text(const FieldOption& field) {
  std::string text = field.dtype;
  const char* separator = "[";
  for (const std::int64_t size : field.sizes) {
    text += separator;
    text += size == kAnySize ? "any" : size == kRowTokens ? "tokens" : std::to_string(size);
    separator = ", ";
  }
  if (!field.sizes.empty()) text += "]";
  if (field.below > 0) text += formatted(" from 0 to {}", field.below - 1);
  return field.below > 0 && field.ignored ? text + formatted(" or {}", *field.ignored) : text;
}

FieldReader::FieldReader(const FieldOption& field)
    : field_(field), value_{field.sizes, no_numbers(type_of(field).kind)} {
  for (std::int64_t& size : value_.sizes) {
    is_known_.push_back(size >= 0);
    if (size < 0) size = 0;
  }
}

void FieldReader::fail(const std::string& what) const {
  throw Error(ErrorKind::kInput,
              {.what = what,
               .remedy = formatted("the model takes '{}' as {}", field_.name,
                                   (field_.sizes.empty() ? "one number, " : "nested lists, ") +
                                       field_text(field_))});
}

void FieldReader::refuse(const std::string& found) const {
  fail(formatted("{} in '{}'", found, field_.name));
}

void FieldReader::count_element(const char* found) {
  if (counts_.empty()) return;
  const std::size_t dimension = counts_.size() - 1;
  const std::int64_t count = ++counts_.back();
  if (is_known_[dimension] && count > value_.sizes[dimension]) {
    fail(formatted("dimension {} of '{}' has {} beyond its size of {}", dimension + 1, field_.name,
                   found, value_.sizes[dimension]));
  }
}

void FieldReader::start_array() {
  if (counts_.size() == field_.sizes.size()) {
    fail(field_.sizes.empty() ? formatted("'{}' is a list", field_.name)
                              : formatted("'{}' has lists in its dimension {}, the last",
                                          field_.name, field_.sizes.size()));
  }
  count_element("a list");
  counts_.push_back(0);
}

void FieldReader::end_array() {
  const std::size_t dimension = counts_.size() - 1;
  const std::int64_t count = counts_.back();
  if (is_known_[dimension] && count != value_.sizes[dimension]) {
    fail(formatted("'{}' has a list of {} in its dimension {}, where {} belong", field_.name, count,
                   dimension + 1, value_.sizes[dimension]));
  }
  is_known_[dimension] = true;
  value_.sizes[dimension] = count;
  counts_.pop_back();
  is_complete_ = counts_.empty();
}

void FieldReader::require_number_here(const char* found) {
  if (counts_.size() < field_.sizes.size()) {
    fail(formatted("'{}' has {} where a list of its dimension {} belongs", field_.name, found,
                   counts_.size() + 1));
  }
  count_element(found);
  is_complete_ = counts_.empty();
}

void FieldReader::boolean(bool value) {
  if (type_of(field_).kind != FieldType::Kind::kBool) refuse("a truth value");
  require_number_here("a truth value");
  std::get<std::vector<std::uint8_t>>(value_.numbers).push_back(value ? 1 : 0);
}

void FieldReader::integer_in_range(std::int64_t value) {
  const FieldType& type = type_of(field_);
  if (value < type.least || value > type.most)
    fail(formatted("{} in '{}' is outside of the range of {}", value, field_.name, field_.dtype));
  const bool is_id = field_.below == 0 || (value >= 0 && value < field_.below);
  if (!is_id && value != field_.ignored)
    fail(formatted("{} in '{}' is outside of the vocabulary of {}", value, field_.name,
                   field_.below));
}

void FieldReader::integer(std::int64_t value) {
  if (takes_reals()) return real(static_cast<double>(value));
  require_number_here("a number");
  integer_in_range(value);
  if (type_of(field_).kind == FieldType::Kind::kBool)
    std::get<std::vector<std::uint8_t>>(value_.numbers).push_back(value != 0 ? 1 : 0);
  else
    std::get<std::vector<std::int64_t>>(value_.numbers).push_back(value);
}

void FieldReader::real(double value) {
  const FieldType& type = type_of(field_);
  if (!is_real(type) && std::abs(value) >= 0x1p63 && value == std::trunc(value))
    fail(formatted("{} in '{}' is beyond {}", shortest(value), field_.name, field_.dtype));
  if (!is_real(type)) refuse(formatted("{}, which is not an integer,", shortest(value)));
  require_number_here("a number");
  if (std::abs(value) > type.largest)
    fail(formatted("{} in '{}' is beyond {}", shortest(value), field_.name, field_.dtype));
  if (type.kind == FieldType::Kind::kDouble)
    std::get<std::vector<double>>(value_.numbers).push_back(value);
  else
    std::get<std::vector<float>>(value_.numbers).push_back(static_cast<float>(value));
}

bool FieldReader::takes_reals() const { return is_real(type_of(field_)); }

FieldValue FieldReader::take() { return std::move(value_); }

}  // namespace sluice::data
