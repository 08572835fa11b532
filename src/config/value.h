// The value of a key between text and RunConfig.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"

namespace sluice::detail {

// In the order of Value's alternative types.
enum class Kind {
  kBool,
  kInteger,
  kNumber,
  kString,
  kIntegers,
  kNumbers,
  kStrings,
  kStringLists,
  kTable
};
using Value =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string>,
                 std::vector<std::vector<std::string>>, std::map<std::string, std::string>>;

Kind kind_of(const Value& value);
std::string to_text(Kind kind);  // "integer", "list of strings"
std::string to_toml(const Value& value);
Json to_json(const Value& value);

// Place in a file. Line 0: none, as on the command line.
struct Position {
  std::uint32_t line = 0, column = 0;
};

// A parsed TOML value. kOther is for dates and times.
struct RawValue {
  enum class Type { kBool, kInteger, kNumber, kString, kList, kTable, kOther };
  Type type = Type::kOther;
  std::string other;  // for kOther: "a date"
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0.0;
  std::string string;
  std::vector<RawValue> list;
  std::vector<std::string> keys;  // of a table, whose values are in `list`
  Position position;
};
std::string describe(const RawValue& raw);  // such as "the string 'x'" or "a list"

// Converts `raw` to the first of `kinds` that it fits. An integer also fits kNumber. If `raw` fits
// none, returns false and sets `misfit` to `raw` or to the wrong list element.
bool convert(const RawValue& raw, const std::vector<Kind>& kinds, Value& value,
             const RawValue*& misfit);

}  // namespace sluice::detail
