#include "family/config_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/format.h"
#include "base/strict_json.h"
#include "sluice/error.h"

namespace sluice::detail {

ConfigReader::ConfigReader(const Json& object, std::string file_name, std::string prefix)
    : object_(&object), file_name_(std::move(file_name)), prefix_(std::move(prefix)) {}

void ConfigReader::fail(const std::string& key, const std::string& what,
                        const std::string& remedy) const {
  throw Error(
      ErrorKind::kInput,
      {.what = what, .where = file_name_ + ", field '" + prefix_ + key + "'", .remedy = remedy});
}

void ConfigReader::fail_missing(const std::string& key, const std::string& remedy) const {
  throw Error(ErrorKind::kInput, {.what = "the field '" + prefix_ + key + "' is missing",
                                  .where = file_name_,
                                  .remedy = remedy});
}

const Json* ConfigReader::find(const std::string& key) const {
  const Json* const found = object_->find(key);
  return found && !found->is_null() ? found : nullptr;
}

bool ConfigReader::has(const std::string& key) const { return find(key) != nullptr; }

bool ConfigReader::is_null(const std::string& key) const {
  const Json* const found = object_->find(key);
  return found && found->is_null();
}

bool ConfigReader::is_object(const std::string& key) const {
  const Json* value = find(key);
  return value && value->is_object();
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> present;
  for (const auto& [key, value] : object_->members()) {
    if (!value.is_null()) present.push_back(key);
  }
  return present;
}

std::int64_t ConfigReader::checked_size(const std::string& key, const Json& value,
                                        std::int64_t max) const {
  const std::string remedy = "write a whole number between 1 and " + std::to_string(max);
  if (!value.is_number_integer()) fail(key, value.shown() + " is not a whole number", remedy);
  const bool fits = value.is_number_unsigned()
                        ? value.unsigned_integer() <= static_cast<std::uint64_t>(max)
                        : value.integer() <= max;
  if (!fits || (!value.is_number_unsigned() && value.integer() < 1) ||
      (value.is_number_unsigned() && value.unsigned_integer() < 1)) {
    fail(key, value.shown() + " is out of range", remedy);
  }
  return value.integer();
}

std::int64_t ConfigReader::size_of(const std::vector<std::string>& names, std::int64_t absent,
                                   std::int64_t max) const {
  std::optional<std::int64_t> result;
  std::string first;
  for (const std::string& name : names) {
    if (is_null(name)) {
      fail(name, "null is not a size",
           formatted("write a whole number, or leave the field out for {}", absent));
    }
    const Json* value = find(name);
    if (!value) continue;
    const std::int64_t found = checked_size(name, *value, max);
    if (result && *result != found) {
      fail(name, formatted("'{}' is {} but '{}' is {}", name, found, first, *result),
           "keep one of the two names");
    }
    if (!result) first = name;
    result = found;
  }
  return result.value_or(absent);
}

std::int64_t ConfigReader::size(const std::string& key, std::int64_t fallback,
                                std::int64_t max) const {
  const Json* value = find(key);
  return value ? checked_size(key, *value, max) : fallback;
}

std::optional<double> ConfigReader::number(const std::string& key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->number())) {
    fail(key, value->shown() + " is not a finite number", "write a number");
  }
  return value->number();
}

double ConfigReader::number(const std::string& key, double fallback, double min, double max) const {
  const double value = number(key).value_or(fallback);
  if (!(value >= min && value <= max)) {
    fail(key, Json(value).shown() + " is out of range",
         "write a number between " + Json(min).shown() + " and " + Json(max).shown());
  }
  return value;
}

bool ConfigReader::flag(const std::string& key, bool fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean())
    fail(key, value->shown() + " is not a truth value", "write true or false");
  return value->boolean();
}

std::string ConfigReader::text(const std::string& key, const std::string& fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_string()) fail(key, value->shown() + " is not a string", "write it in quotes");
  return value->text();
}

std::vector<std::string> ConfigReader::texts(const std::string& key) const {
  const Json* value = find(key);
  std::vector<std::string> texts;
  if (!value) return texts;
  if (!value->is_array()) fail(key, value->shown() + " is not a list", "write [\"..\", ..]");
  for (const Json& item : value->list()) {
    if (!item.is_string()) fail(key, item.shown() + " is not a string", "write it in quotes");
    texts.push_back(item.text());
  }
  return texts;
}

std::vector<std::int64_t> ConfigReader::sizes(const std::string& key, std::int64_t min,
                                              std::int64_t max) const {
  const Json* value = find(key);
  std::vector<std::int64_t> sizes;
  if (!value) return sizes;
  if (!value->is_array()) fail(key, value->shown() + " is not a list", "write [.., ..]");
  for (const Json& item : value->list()) {
    const bool is_size = item.is_number_integer() && item.integer() >= min && item.integer() <= max;
    if (!is_size) {
      fail(key, formatted("{} is not a whole number between {} and {}", item.shown(), min, max),
           "write such a number");
    }
    sizes.push_back(item.integer());
  }
  return sizes;
}

std::vector<double> ConfigReader::numbers(const std::string& key, double min, double max) const {
  const Json* value = find(key);
  std::vector<double> numbers;
  if (!value) return numbers;
  if (!value->is_array()) fail(key, value->shown() + " is not a list", "write [.., ..]");
  for (const Json& item : value->list()) {
    const bool fits = item.is_number() && item.number() >= min && item.number() <= max;
    if (!fits) {
      fail(key,
           item.shown() + " is not a number between " + Json(min).shown() + " and " +
               Json(max).shown(),
           "write such a number");
    }
    numbers.push_back(item.number());
  }
  return numbers;
}

std::optional<ConfigReader> ConfigReader::object(const std::string& key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) fail(key, value->shown() + " is not an object", "write {...} or null");
  return ConfigReader(*value, file_name_, prefix_ + key + ".");
}

void ConfigReader::require_flag(const std::string& key, bool accepted, bool fallback) const {
  if (flag(key, fallback) != accepted) {
    fail(key, std::string(accepted ? "false" : "true") + " is not implemented",
         "use a model with " + std::string(accepted ? "true" : "false"));
  }
}

void ConfigReader::require_one_of(const std::string& key, const std::string& accepted) const {
  const Json* found = object_->find(key);
  if (found == nullptr) return;
  const std::optional<Json> values = parse_json(accepted);
  if (std::find(values->list().begin(), values->list().end(), *found) != values->list().end())
    return;
  fail(key, "'" + key + "' = " + found->shown() + " is not implemented",
       "only one of " + accepted + " is");
}

}  // namespace sluice::detail
