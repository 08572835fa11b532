#include "plan/families/config_reader.h"

#include <cmath>
#include <utility>

#include "sluice/error.h"

namespace sluice::detail {
namespace {

std::string shown(const nlohmann::json& value) {
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

ConfigReader::ConfigReader(const nlohmann::json& object, std::string file_name, std::string prefix)
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

const nlohmann::json* ConfigReader::find(const std::string& key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::has(const std::string& key) const { return find(key) != nullptr; }

bool ConfigReader::is_null(const std::string& key) const {
  const auto found = object_->find(key);
  return found != object_->end() && found->is_null();
}

bool ConfigReader::is_object(const std::string& key) const {
  const nlohmann::json* value = find(key);
  return value && value->is_object();
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> present;
  for (const auto& [key, value] : object_->items()) {
    if (!value.is_null()) present.push_back(key);
  }
  return present;
}

std::int64_t ConfigReader::checked_size(const std::string& key, const nlohmann::json& value,
                                        std::int64_t max) const {
  const std::string remedy = "write a whole number between 1 and " + std::to_string(max);
  if (!value.is_number_integer()) fail(key, shown(value) + " is not a whole number", remedy);
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max)
                        : value.get<std::int64_t>() <= max;
  if (!fits || (!value.is_number_unsigned() && value.get<std::int64_t>() < 1) ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() < 1)) {
    fail(key, shown(value) + " is out of range", remedy);
  }
  return value.get<std::int64_t>();
}

std::int64_t ConfigReader::required_size(const std::vector<std::string>& names,
                                         std::int64_t max) const {
  std::optional<std::int64_t> result;
  std::string first;
  for (const std::string& name : names) {
    const nlohmann::json* value = find(name);
    if (!value) continue;
    const std::int64_t found = checked_size(name, *value, max);
    if (result && *result != found) {
      fail(name,
           "'" + name + "' is " + std::to_string(found) + " but '" + first + "' is " +
               std::to_string(*result),
           "keep one of the two names");
    }
    if (!result) first = name;
    result = found;
  }
  if (!result) fail_missing(names.front(), "add it: a whole number");
  return *result;
}

std::int64_t ConfigReader::size(const std::string& key, std::int64_t fallback,
                                std::int64_t max) const {
  const nlohmann::json* value = find(key);
  return value ? checked_size(key, *value, max) : fallback;
}

std::optional<double> ConfigReader::number(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    fail(key, shown(*value) + " is not a finite number", "write a number");
  }
  return value->get<double>();
}

double ConfigReader::number(const std::string& key, double fallback, double min, double max) const {
  const double value = number(key).value_or(fallback);
  if (!(value >= min && value <= max)) {
    fail(key, shown(value) + " is out of range",
         "write a number between " + shown(min) + " and " + shown(max));
  }
  return value;
}

bool ConfigReader::flag(const std::string& key, bool fallback) const {
  const nlohmann::json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) fail(key, shown(*value) + " is no truth value", "write true or false");
  return value->get<bool>();
}

std::string ConfigReader::text(const std::string& key, const std::string& fallback) const {
  const nlohmann::json* value = find(key);
  if (!value) return fallback;
  if (!value->is_string()) fail(key, shown(*value) + " is not a string", "write it in quotes");
  return value->get<std::string>();
}

std::vector<std::string> ConfigReader::texts(const std::string& key) const {
  const nlohmann::json* value = find(key);
  std::vector<std::string> texts;
  if (!value) return texts;
  if (!value->is_array()) fail(key, shown(*value) + " is not a list", "write [\"..\", ..]");
  for (const nlohmann::json& item : *value) {
    if (!item.is_string()) fail(key, shown(item) + " is not a string", "write it in quotes");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<std::int64_t> ConfigReader::sizes(const std::string& key, std::int64_t min,
                                              std::int64_t max) const {
  const nlohmann::json* value = find(key);
  std::vector<std::int64_t> sizes;
  if (!value) return sizes;
  if (!value->is_array()) fail(key, shown(*value) + " is not a list", "write [.., ..]");
  for (const nlohmann::json& item : *value) {
    const bool is_size = item.is_number_integer() && item >= min && item <= max;
    if (!is_size) {
      fail(key,
           shown(item) + " is no whole number between " + std::to_string(min) + " and " +
               std::to_string(max),
           "mend it");
    }
    sizes.push_back(item.get<std::int64_t>());
  }
  return sizes;
}

std::vector<double> ConfigReader::numbers(const std::string& key, double min, double max) const {
  const nlohmann::json* value = find(key);
  std::vector<double> numbers;
  if (!value) return numbers;
  if (!value->is_array()) fail(key, shown(*value) + " is not a list", "write [.., ..]");
  for (const nlohmann::json& item : *value) {
    const bool fits = item.is_number() && item.get<double>() >= min && item.get<double>() <= max;
    if (!fits) {
      fail(key, shown(item) + " is no number between " + shown(min) + " and " + shown(max),
           "mend it");
    }
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

std::optional<ConfigReader> ConfigReader::object(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) fail(key, shown(*value) + " is not an object", "write {...} or null");
  return ConfigReader(*value, file_name_, prefix_ + key + ".");
}

void ConfigReader::require_flag(const std::string& key, bool accepted, bool fallback) const {
  if (flag(key, fallback) != accepted) {
    fail(key, std::string(accepted ? "false" : "true") + " is not implemented",
         "use a model with " + std::string(accepted ? "true" : "false"));
  }
}

}  // namespace sluice::detail
