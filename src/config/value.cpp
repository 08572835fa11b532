#include "config/value.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"

namespace sluice::detail {
namespace {

std::string in_quotes(const std::string& text) {
  // TOML strings use JSON's escapes, but must also escape the character DEL.
  std::string escaped = Json(text).dump();
  for (std::size_t at; (at = escaped.find('\x7f')) != std::string::npos;) {
    escaped.replace(at, 1, "\\u007f");
  }
  return escaped;
}

std::string toml_key(const std::string& key) {
  const bool is_bare = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return is_bare ? key : in_quotes(key);
}

std::string write(bool value) { return value ? "true" : "false"; }
std::string write(std::int64_t value) { return std::to_string(value); }
std::string write(double value) { return shortest(value); }
std::string write(const std::string& value) { return in_quotes(value); }
template <typename T>
std::string write(const std::vector<T>& list) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i ? ", " : "") + write(list[i]);
  return text + "]";
}
std::string write(const std::map<std::string, std::string>& table) {
  std::string text;
  for (const auto& [key, value] : table)
    text += (text.empty() ? "{ " : ", ") + toml_key(key) + " = " + write(value);
  return text.empty() ? "{}" : text + " }";
}

bool read(const RawValue& raw, bool& value, const RawValue*&) {
  value = raw.boolean;
  return raw.type == RawValue::Type::kBool;
}
bool read(const RawValue& raw, std::int64_t& value, const RawValue*&) {
  value = raw.integer;
  return raw.type == RawValue::Type::kInteger;
}
bool read(const RawValue& raw, double& value, const RawValue*&) {
  const bool is_integer = raw.type == RawValue::Type::kInteger;
  value = is_integer ? static_cast<double>(raw.integer) : raw.number;
  return is_integer || raw.type == RawValue::Type::kNumber;
}
bool read(const RawValue& raw, std::string& value, const RawValue*&) {
  value = raw.string;
  return raw.type == RawValue::Type::kString;
}
template <typename T>
bool read(const RawValue& raw, std::vector<T>& list, const RawValue*& misfit) {
  if (raw.type != RawValue::Type::kList) return false;
  for (const RawValue& element : raw.list) {
    T value{};
    const RawValue* inner = &element;
    if (!read(element, value, inner)) {
      misfit = inner;
      return false;
    }
    list.push_back(std::move(value));
  }
  return true;
}

bool read(const RawValue& raw, std::map<std::string, std::string>& table, const RawValue*& misfit) {
  if (raw.type != RawValue::Type::kTable) return false;
  for (std::size_t i = 0; i < raw.keys.size(); ++i) {
    misfit = &raw.list[i];
    if (!read(raw.list[i], table[raw.keys[i]], misfit)) return false;
  }
  return true;
}

template <std::size_t I = 0>
bool read_as(Kind kind, const RawValue& raw, Value& value, const RawValue*& misfit) {
  if constexpr (I < std::variant_size_v<Value>) {
    if (static_cast<std::size_t>(kind) != I) return read_as<I + 1>(kind, raw, value, misfit);
    std::variant_alternative_t<I, Value> typed{};
    if (!read(raw, typed, misfit)) return false;
    value = Value(std::in_place_index<I>, std::move(typed));
    return true;
  }
  return false;
}

}  // namespace

Kind kind_of(const Value& value) { return static_cast<Kind>(value.index()); }

std::string to_text(Kind kind) {
  switch (kind) {
    case Kind::kBool:
      return "true or false";
    case Kind::kInteger:
      return "integer";
    case Kind::kNumber:
      return "number";
    case Kind::kString:
      return "string";
    case Kind::kIntegers:
      return "list of integers";
    case Kind::kNumbers:
      return "list of numbers";
    case Kind::kStrings:
      return "list of strings";
    case Kind::kStringLists:
      return "list of lists of strings";
    case Kind::kTable:
      return "table of strings";
  }
  return {};
}

std::string to_toml(const Value& value) {
  return std::visit([](const auto& typed) { return write(typed); }, value);
}

Json to_json(const Value& value) {
  return std::visit([](const auto& typed) { return Json(typed); }, value);
}

std::string describe(const RawValue& raw) {
  switch (raw.type) {
    case RawValue::Type::kBool:
      return write(raw.boolean);
    case RawValue::Type::kInteger:
      return "the integer " + write(raw.integer);
    case RawValue::Type::kNumber:
      return "the number " + write(raw.number);
    case RawValue::Type::kString:
      return "the string " + in_quotes(raw.string);
    case RawValue::Type::kList:
      return "a list";
    case RawValue::Type::kTable:
      return "a table";
    case RawValue::Type::kOther:
      return raw.other;
  }
  return {};
}

bool convert(const RawValue& raw, const std::vector<Kind>& kinds, Value& value,
             const RawValue*& misfit) {
  misfit = &raw;
  for (const Kind kind : kinds) {
    if (read_as(kind, raw, value, misfit)) return true;
  }
  return false;
}

}  // namespace sluice::detail
