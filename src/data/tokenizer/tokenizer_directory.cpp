#include "data/tokenizer/tokenizer_directory.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/hub_id.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "data/special_tokens.h"

namespace sluice::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizer = "tokenizer.json";

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool ends_in_one_of(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

std::string conversion(const std::string& directory) {
  return formatted(
      "make a tokenizer.json: python -c \"from transformers import AutoTokenizer as T; "
      "T.from_pretrained('{}').save_pretrained('{}')\"",
      directory, directory);
}

std::string broken_link(const std::string& path) {
  std::error_code failed;
  if (!fs::is_symlink(fs::symlink_status(path, failed))) return {};
  const bool is_there = fs::exists(path, failed);
  if (is_there) return {};
  if (failed == std::errc::too_many_symbolic_link_levels) return "is a link to itself";
  return formatted("is a link to '{}', which is not there",
                   fs::read_symlink(path, failed).string());
}

Error tokenizer_error(const std::string& what, const std::string& where,
                      const std::string& remedy) {
  return Error(ErrorKind::kInput, {.what = what, .where = where, .remedy = remedy});
}

// Returns for example "'merges.txt' and 'vocab.json'".
std::string other_tokenizer_in(const std::string& directory) {
  constexpr std::size_t kNamed = 3;
  std::error_code failed, unseen;
  std::vector<std::string> found, settings;
  fs::directory_iterator entries(directory, failed);
  for (const fs::directory_iterator end; !failed && entries != end; entries.increment(failed)) {
    const std::string name = entries->path().filename().string();
    if (!is_tokenizer_name(name)) continue;
    const bool is_setting =
        is_one_of(name, {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"});
    (is_setting ? settings : found).push_back("'" + name + "'");
  }
  if (failed && fs::exists(directory, unseen))
    throw tokenizer_error("cannot list the folder: " + failed.message(), directory,
                          "let this user read it, or set `data.tokenizer`");
  if (found.empty()) found = settings;  // settings files only if there is no vocabulary
  std::sort(found.begin(), found.end());
  if (found.size() > kNamed) found.resize(kNamed);
  return join(found, " and ");
}

bool is_other_form(const std::string& name) {
  const std::string lower = to_lower(name);
  const bool is_json = lower.ends_with("tokenizer.json") ||
                       (lower.starts_with("tokenizer.") && lower.ends_with(".json"));
  return is_tokenizer_name(name) && !is_json;
}

}  // namespace

bool is_tokenizer_name(std::string_view name) {
  const std::string lower = to_lower(name);
  if (ends_in_one_of(lower, {".py", ".pyc", ".md", ".h", ".cpp", ".log"})) return false;
  return lower.starts_with("tokenizer.") || lower == "tokenizer" ||
         is_one_of(lower, {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "encoder.json", "tekken.json", "dict.txt", "bpe.codes"}) ||
         ends_in_one_of(lower, {"tokenizer.json", "vocab.json", "vocab.txt", "merges.txt", ".bpe",
                                ".model", ".spm", ".vocab", ".tiktoken", "tekken.json"});
}

std::string tokenizer_in(const std::string& directory) {
  if (directory.empty()) return {};
  const std::string file = directory + "/" + kTokenizer;
  std::error_code ignored;
  if (fs::exists(file, ignored)) return file;
  if (const std::string broken = broken_link(file); !broken.empty()) {
    throw tokenizer_error(std::string("the tokenizer.json of the model ") + broken, file,
                          "copy or download the file itself, or set `data.tokenizer`");
  }
  const std::string other = other_tokenizer_in(directory);
  if (other.empty()) return {};
  throw tokenizer_error(
      formatted("the model's tokenizer is in {}, but sluice reads only a tokenizer.json", other),
      directory,
      conversion(directory) + ", or set `data.tokenizer` (\"bytes\": each byte is a token)");
}

std::string tokenizer_at(const std::string& path, const std::string& subject) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const std::string file = is_folder ? path + "/" + kTokenizer : path;
  if (fs::exists(file, ignored)) {
    if (!is_other_form(base_name(file))) return file;
    throw tokenizer_error(
        formatted("{}'{}' is not a tokenizer.json, the only form that sluice reads", subject, file),
        path, conversion(parent_directory(file)));
  }
  if (const std::string broken = broken_link(file); !broken.empty()) {
    throw tokenizer_error(subject + "'" + file + "' " + broken, path,
                          "copy or download the file itself");
  }
  const std::string other = is_folder ? other_tokenizer_in(path) : std::string();
  if (!other.empty()) {
    throw tokenizer_error(
        formatted("{}there is no '{}', only {}, which sluice does not read", subject, file, other),
        path, conversion(path));
  }
  const std::string download = download_advice(path);
  throw tokenizer_error(
      subject + "there is no '" + file + "'", path,
      download.empty() ? "name a tokenizer.json or a directory that holds one" : download);
}

std::string model_type_beside(const std::string& tokenizer_file) {
  const std::string file = parent_directory(tokenizer_file) + "/config.json";
  std::error_code ignored;
  if (tokenizer_file.empty() || !fs::exists(file, ignored)) return {};
  const Json config = parse_strict_json(read_text(file, kMaxTokenizerBytes), file);
  if (!config.is_object() || !config.at("model_type").is_string()) return {};
  return config.at("model_type").text();
}

}  // namespace sluice::data
