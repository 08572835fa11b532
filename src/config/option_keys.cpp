#include "config/option_keys.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/option_names.h"
#include "base/text.h"
#include "config/key_table.h"
#include "config/origins.h"

namespace sluice::detail {
namespace {

const Key* key_of(std::string_view option) {
  const std::vector<Key>& table = key_table();
  const auto key = std::find_if(table.begin(), table.end(), [&](const Key& row) {
    return !option.empty() && row.option == option;
  });
  return key == table.end() ? nullptr : &*key;
}

std::string key_name(std::string_view option) {
  if (option == "schedule.is_auto") return key_name("schedule") + " = \"auto\"";
  const Key* key = key_of(option);
  return key ? key->full_name() : std::string();
}

std::string places_of_split(const RunConfig& config) {
  std::vector<std::string> places;
  for (const auto& [name, origin] : config.origins) {
    const std::vector<Key>& table = key_table();
    const auto key = std::find_if(table.begin(), table.end(), [&name = name](const Key& row) {
      return row.full_name() == name;
    });
    if (origin != "default" && key != table.end() && key->affects_split) places.push_back(origin);
  }
  return places.empty() ? config.file : join(places, ", ");
}

std::string place_of(const RunConfig& config, const std::string& where) {
  if (where.empty()) return config.file;
  const std::string option = first_option(where);
  if (option == "partition") return places_of_split(config);
  const Key* key = key_of(option);
  if (!key) return where;
  const std::string& origin = config.origins.at(key->full_name());
  if (origin != "default") return origin;
  return config.file.empty() ? key->full_name() : config.file + ", " + key->full_name();
}

}  // namespace

std::string with_keys(const std::string& text) { return with_names(text, key_name); }
Error with_keys(const Error& error) { return with_names(error, key_name); }

std::string with_keys_and_place(const RunConfig& config, const std::string& text) {
  const Key* key = key_of(first_option(text));
  return with_place(config, key ? key->full_name() : "", with_keys(text));
}

std::string with_place(const RunConfig& config, const std::string& key, const std::string& text) {
  return is_set(config, key) ? text + "; " + config.origins.at(key) : text;
}

Error with_places(const RunConfig& config, const Error& error) {
  return with_names(error, key_name).at(place_of(config, error.where()));
}

}  // namespace sluice::detail
