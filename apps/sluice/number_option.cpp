#include "number_option.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "sluice/error.h"

namespace sluice {
namespace {

std::optional<double> finite_number(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

Error no_such(const char* range, const char* option, const std::string& text, const char* example) {
  return Error(ErrorKind::kUsage, {.what = "'" + text + "' is not a number " + range,
                                   .where = option,
                                   .remedy = std::string("give it as ") + option + " " + example});
}

}  // namespace

double number_above_0(const char* option, const std::string& text, const char* example) {
  const std::optional<double> value = finite_number(text);
  if (!value || *value <= 0) throw no_such("above 0", option, text, example);
  return *value;
}

double number_from_0(const char* option, const std::string& text, const char* example) {
  const std::optional<double> value = finite_number(text);
  if (!value || *value < 0) throw no_such("from 0", option, text, example);
  return *value;
}

}  // namespace sluice
