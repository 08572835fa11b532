#include "config/paths.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unordered_set>

#include "base/text.h"
#include "sluice/error.h"
#include "sluice/run_config.h"

namespace sluice {

namespace fs = std::filesystem;

namespace detail {
namespace {

std::string variable(const std::string& name, const std::string& where) {
  if (const char* value = std::getenv(name.c_str())) return value;
  throw Error(ErrorKind::kUsage, "the variable " + name + " is not set", where,
              "set it, or write the path out");
}

bool has_wildcard(std::string_view component) {
  return component.find_first_of("*?[") != std::string_view::npos;
}

Error unreadable(const fs::path& folder, const std::error_code& error, const std::string& where) {
  return Error(ErrorKind::kInput,
               "cannot read the folder '" + folder.string() + "': " + error.message(), where,
               "check its permissions");
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder, const std::string& where) {
  std::error_code error;
  fs::directory_iterator begin(folder.empty() ? fs::path(".") : folder, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    return {};
  if (error) throw unreadable(folder, error, where);
  std::vector<fs::directory_entry> entries;
  for (; begin != fs::directory_iterator(); begin.increment(error)) {
    if (error) throw unreadable(folder, error, where);
    entries.push_back(*begin);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Appends to `found` the files below `folder` that match components[i...].
void match(const fs::path& folder, const std::vector<std::string>& components, std::size_t i,
           const std::string& where, std::vector<std::string>& found) {
  if (i == components.size()) {
    std::error_code error;
    if (fs::is_regular_file(folder, error)) found.push_back(folder.string());
    return;
  }
  const std::string& component = components[i];
  if (component == "**") {
    match(folder, components, i + 1, where, found);
    for (const fs::directory_entry& entry : entries_of(folder, where)) {
      std::error_code error;
      const std::string name = entry.path().filename().string();
      if (name.front() == '.' || entry.is_symlink(error) || !entry.is_directory(error)) continue;
      match(folder / name, components, i, where, found);
    }
    return;
  }
  if (!has_wildcard(component)) {
    match(folder / component, components, i + 1, where, found);
    return;
  }
  for (const fs::directory_entry& entry : entries_of(folder, where)) {
    const std::string name = entry.path().filename().string();
    if (fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) == 0) {
      match(folder / name, components, i + 1, where, found);
    }
  }
}

}  // namespace

std::string expand_path(std::string_view text, const std::string& folder,
                        const std::string& where) {
  std::string expanded;
  if (text == "~" || text.starts_with("~/")) {
    expanded = variable("HOME", where);
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const std::size_t open = text.find("${");
    expanded += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find('}', open);
    if (close == std::string_view::npos) {
      throw Error(ErrorKind::kUsage, "'${' without '}' in the path '" + std::string(text) + "'",
                  where, "close it");
    }
    expanded += variable(std::string(text.substr(open + 2, close - open - 2)), where);
    text.remove_prefix(close + 1);
  }
  if (expanded.empty()) return expanded;
  if (folder.empty()) return expanded;
  const fs::path path = fs::path(folder) / expanded;
  // "a/../b" reads better as "b", but is another place when a is a link.
  const fs::path normal = path.lexically_normal();
  const auto resolved = [](const fs::path& relative) {
    std::error_code error;
    const fs::path place = fs::weakly_canonical(fs::absolute(relative, error), error);
    return error ? relative : place;
  };
  return (resolved(path) == resolved(normal) ? normal : path).string();
}

std::vector<std::string> match_files(const std::string& pattern, const std::string& where) {
  std::error_code error;
  if (fs::is_regular_file(pattern, error)) return {pattern};
  const fs::path path(pattern);
  std::vector<std::string> components;
  for (const fs::path& part : path.relative_path()) {
    // "**/**" would find every file many times over.
    if (part == "**" && !components.empty() && components.back() == "**") continue;
    if (!part.empty()) components.push_back(part.string());
  }
  if (!components.empty() && components.back() == "**") components.push_back("*");
  std::vector<std::string> found;
  match(path.root_path(), components, 0, where, found);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace detail

namespace {

// What keeps a pattern without files from having some.
std::string remedy_of_no_match(const std::string& pattern) {
  fs::path folder;
  std::error_code error;
  for (const fs::path& part : fs::path(pattern).parent_path()) {
    if (detail::has_wildcard(part.string())) break;
    folder /= part;
    if (fs::is_directory(folder, error)) continue;
    return "there is no folder '" + folder.string() +
           "': mend the path (relative ones are from the folder of the configuration in a file, "
           "else from the working folder)";
  }
  return "no such name in the folder '" + (folder.empty() ? "." : folder.string()) +
         "': mend the name or the pattern";
}

}  // namespace

std::vector<std::string> expand_data_files(const RunConfig& config) {
  const auto origin = config.origins.find("data.files");
  const std::string where = origin == config.origins.end() ? "data.files" : origin->second;
  if (config.data.files.empty()) {
    throw Error(ErrorKind::kUsage, "data.files names no file",
                where != "default"    ? where
                : config.file.empty() ? "data.files"
                                      : config.file,
                "for example data.files = [\"corpus/*.txt\"]");
  }
  std::vector<std::string> files;
  std::unordered_set<std::string> seen;
  for (const std::string& pattern : config.data.files) {
    const std::vector<std::string> found = detail::match_files(pattern, where);
    if (found.empty()) {
      std::error_code error;
      const bool is_folder = fs::is_directory(pattern, error);
      throw Error(ErrorKind::kInput,
                  is_folder ? "'" + pattern + "' is a folder" : "no file matches '" + pattern + "'",
                  where,
                  is_folder ? "write '" + pattern + "/**/*.txt'" : remedy_of_no_match(pattern));
    }
    for (const std::string& file : found) {
      const std::string ending = to_lower(fs::path(file).extension().string());
      if (config.data.format == "auto" && (ending == ".bin" || ending == ".idx")) {
        throw Error(ErrorKind::kUsage, "data.files: '" + file + "' is a token file, not built yet",
                    where, "give .txt or .jsonl files, or data.format = \"text\"");
      }
      if (seen.insert(file).second) files.push_back(file);
    }
  }
  return files;
}

}  // namespace sluice
