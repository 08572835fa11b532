#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "base/file.h"
#include "config/option_keys.h"
#include "config/paths.h"
#include "config/run_config.h"
#include "data/data_format.h"
#include "data/file_content.h"
#include "data/jsonl_rows.h"
#include "data/tokenizer/tokenizer_directory.h"
#include "sluice/error.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

std::string no_match_remedy(const std::string& pattern) {
  fs::path folder;
  std::error_code error;
  for (const fs::path& part : fs::path(pattern).parent_path()) {
    if (detail::has_wildcard(part.string())) break;
    folder /= part;
    if (fs::is_directory(folder, error)) continue;
    return "there is no folder '" + folder.string() +
           "': correct the path (relative paths in a configuration file start at its folder, "
           "others at the working folder)";
  }
  return "nothing in the folder '" + (folder.empty() ? "." : folder.string()) +
         "' matches: correct the name or the pattern";
}

// `other` is a match of `pattern` that is not a regular file, or "".
Error no_file(const std::string& pattern, const std::string& other, const std::string& where) {
  const std::string no_match = "no file matches '" + pattern + "'";
  if (other.empty())
    return Error(ErrorKind::kInput,
                 {.what = no_match, .where = where, .remedy = no_match_remedy(pattern)});
  std::error_code error;
  const fs::file_status status = fs::status(other, error);
  const std::string subject = (other == pattern ? "" : no_match + ": ") + "'" + other + "' is ";
  if (fs::is_directory(status)) {
    return Error(
        ErrorKind::kInput,
        {.what = subject + "a folder", .where = where, .remedy = "write '" + other + "/**/*.txt'"});
  }
  if (fs::is_symlink(fs::symlink_status(other, error)) && !fs::exists(status)) {
    return Error(ErrorKind::kInput, {.what = subject + "a broken symbolic link",
                                     .where = where,
                                     .remedy = "correct the link, or name another file"});
  }
  return Error(ErrorKind::kInput, {.what = subject + "not a regular file",
                                   .where = where,
                                   .remedy = "copy its content into a file, and name that file"});
}

void require_format(const RunConfig& config, const std::string& file, const std::string& where) {
  try {
    const DataFormat format = data::format_of(file, config.data.format, where);
    data::require_content(file, format, config.data.format != DataFormat::kAuto, where);
  } catch (const Error& error) {
    throw detail::with_places(config, error);
  }
}

std::vector<std::vector<std::string>> expand(const RunConfig& config, const std::string& key,
                                             const std::vector<std::string>& patterns) {
  const auto origin = config.origins.find(key);
  const std::string where = origin == config.origins.end() ? key : origin->second;
  if (patterns.empty()) {
    throw Error(ErrorKind::kUsage, {.what = key + " names no file",
                                    .where = where != "default"    ? where
                                             : config.file.empty() ? key
                                                                   : config.file,
                                    .remedy = "for example " + key + " = [\"corpus/*.txt\"]"});
  }
  std::vector<std::vector<std::string>> entries;
  std::unordered_set<std::string> seen;
  for (const std::string& pattern : patterns) {
    const detail::Matches found = detail::match_files(pattern, where);
    if (found.files.empty()) throw no_file(pattern, found.other, where);
    entries.emplace_back();
    for (const std::string& match : found.files) {
      require_format(config, match, where);
      const std::string file = data::data_file_of(match, config.data.format);
      if (seen.insert(file).second) entries.back().push_back(file);
    }
  }
  return entries;
}

std::vector<std::string> flat(const std::vector<std::vector<std::string>>& entries) {
  std::vector<std::string> files;
  for (const std::vector<std::string>& entry : entries)
    files.insert(files.end(), entry.begin(), entry.end());
  return files;
}

}  // namespace

std::vector<std::vector<std::string>> expand_data_entries(const RunConfig& config) {
  return expand(config, "data.files", config.data.files);
}

std::vector<std::string> expand_data_files(const RunConfig& config) {
  return flat(expand_data_entries(config));
}

std::string model_directory(const RunConfig& config) {
  if (!config.model.path.empty()) return config.model.path;
  std::error_code unseen;
  if (config.model.config.empty() || fs::is_directory(config.model.config, unseen))
    return config.model.config;
  return parent_directory(config.model.config);
}

void require_tokenizer(const RunConfig& config) {
  if (config.data.tokenizer != "auto" || config.data.files.empty()) return;
  std::vector<std::string> files;
  try {
    files = expand_data_files(config);
  } catch (const Error&) {
    return;  // report this elsewhere, because a plan does not need the data
  }
  const auto has_text = [&](const std::string& file) {
    const DataFormat format = data::format_of(file, config.data.format, "data.files");
    return format == DataFormat::kText ||
           (format == DataFormat::kJsonl && !data::first_row_has_ids(file, config.data.fields));
  };
  if (!std::any_of(files.begin(), files.end(), has_text)) return;
  try {
    data::tokenizer_in(model_directory(config));
  } catch (const Error& error) {
    throw detail::with_keys(error);
  }
}

std::vector<std::string> expand_validation_files(const RunConfig& config) {
  return flat(expand(config, "validation.files", config.validation.files));
}

}  // namespace sluice
