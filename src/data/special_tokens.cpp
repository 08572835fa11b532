#include "data/special_tokens.h"

#include <cstdint>
#include <filesystem>
#include <limits>

#include "base/file.h"
#include "base/strict_json.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

Json read_object(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Json::object();
  Json object = parse_strict_json(read_text(path, kMaxTokenizerBytes), path);
  if (object.is_object()) return object;
  throw Error(
      ErrorKind::kInput,
      {.what = "not a JSON object", .where = path, .remedy = "copy the file of the model again"});
}

// Returns the id under `key`, or the first of a list of ids.
std::optional<std::int32_t> id_in(const Json& object, const std::string& key) {
  const Json& value = object.at(key);
  const Json& first = value.is_array() && !value.empty() ? value.list().front() : value;
  if (!first.is_number_unsigned()) return std::nullopt;
  const auto id = first.unsigned_integer();
  if (id > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
    return std::nullopt;
  return static_cast<std::int32_t>(id);
}

}  // namespace

SpecialIds read_special_ids(const std::string& file) {
  const Json config = read_object(parent_directory(file) + "/config.json");
  return {id_in(config, "bos_token_id"), id_in(config, "eos_token_id")};
}

}  // namespace sluice::data
