#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/text.h"
#include "config/import/yaml_reader.h"

namespace sluice::detail {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Json yaml_scalar(std::string_view text) {
  const std::string word = to_lower(std::string(text));
  if (text.empty() || text == "~" || word == "null") return Json();
  if (word == "true" || word == "yes" || word == "on") return Json(true);
  if (word == "false" || word == "no" || word == "off") return Json(false);
  std::string digits(text.starts_with('+') ? text.substr(1) : text);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  const bool is_number =
      digits.size() > first &&
      (is_digit(digits[first]) ||
       (digits[first] == '.' && digits.size() > first + 1 && is_digit(digits[first + 1])));
  if (!is_number) return Json(text);
  std::erase(digits, '_');
  const char* const end = digits.data() + digits.size();
  std::int64_t integer = 0;
  if (const auto read = std::from_chars(digits.data(), end, integer);
      read.ec == std::errc() && read.ptr == end)
    return Json(integer);
  double number = 0;
  if (const auto read = std::from_chars(digits.data(), end, number);
      read.ec == std::errc() && read.ptr == end && std::isfinite(number))
    return Json(number);
  return Json(text);
}

}  // namespace sluice::detail
