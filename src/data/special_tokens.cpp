#include "data/special_tokens.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/strict_json.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

// An empty object where there is no such file.
nlohmann::json read_object(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return nlohmann::json::object();
  nlohmann::json object = parse_strict_json(read_text(path, kMaxTokenizerBytes), path);
  if (object.is_object()) return object;
  throw Error(
      ErrorKind::kInput,
      {.what = "not a JSON object", .where = path, .remedy = "copy the file of the model again"});
}

// A string, or an object that describes the token.
std::string token_in(const nlohmann::json& object, const std::string& key) {
  if (!object.contains(key)) return {};
  const nlohmann::json& value = object.at(key);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value.at("content").is_string())
    return value.at("content").get<std::string>();
  return {};
}

// An id, or a list of ids of which the first counts.
std::optional<std::int32_t> id_in(const nlohmann::json& object, const std::string& key) {
  if (!object.contains(key)) return std::nullopt;
  const nlohmann::json& value = object.at(key);
  const nlohmann::json& first = value.is_array() && !value.empty() ? value.front() : value;
  if (!first.is_number_unsigned()) return std::nullopt;
  const auto id = first.get<std::uint64_t>();
  if (id > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
    return std::nullopt;
  return static_cast<std::int32_t>(id);
}

}  // namespace

std::string SpecialToken::text_in(const Tokenizer& tokenizer) const {
  return text.empty() && id ? tokenizer.token_of(*id) : text;
}

SpecialTokens read_special_tokens(const std::string& file) {
  const std::string folder = parent_directory(file) + "/";
  SpecialTokens tokens;
  const auto is_whole = [&] { return !tokens.begin.text.empty() && !tokens.end.text.empty(); };
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (is_whole()) return tokens;
    const nlohmann::json object = read_object(folder + name);
    if (tokens.begin.text.empty()) tokens.begin.text = token_in(object, "bos_token");
    if (tokens.end.text.empty()) tokens.end.text = token_in(object, "eos_token");
  }
  if (is_whole()) return tokens;
  const nlohmann::json config = read_object(folder + "config.json");
  if (tokens.begin.text.empty()) tokens.begin.id = id_in(config, "bos_token_id");
  if (tokens.end.text.empty()) tokens.end.id = id_in(config, "eos_token_id");
  return tokens;
}

}  // namespace sluice::data
