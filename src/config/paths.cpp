#include "config/paths.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "sluice/error.h"

namespace sluice {

namespace fs = std::filesystem;

namespace detail {
namespace {

std::string variable(const std::string& name, const std::string& where) {
  if (const char* value = std::getenv(name.c_str())) return value;
  throw Error(ErrorKind::kUsage, {.what = "the variable " + name + " is not set",
                                  .where = where,
                                  .remedy = "set it, or write the path out"});
}

Error unreadable(const fs::path& folder, const std::error_code& error, const std::string& where) {
  return Error(ErrorKind::kInput,
               {.what = "cannot read the folder '" + folder.string() + "': " + error.message(),
                .where = where,
                .remedy = "check its permissions"});
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

void match(const fs::path& folder, const std::vector<std::string>& components, std::size_t i,
           const std::string& where, Matches& found) {
  if (i == components.size()) {
    std::error_code error;
    if (fs::is_regular_file(folder, error)) {
      found.files.push_back(folder.string());
    } else if (found.other.empty() && fs::exists(fs::symlink_status(folder, error))) {
      found.other = folder.string();
    }
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

bool has_wildcard(std::string_view component) {
  return component.find_first_of("*?[") != std::string_view::npos;
}

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
      throw Error(ErrorKind::kUsage,
                  {.what = "the path '" + std::string(text) + "' has '${' without '}'",
                   .where = where,
                   .remedy = "add the '}'"});
    }
    expanded += variable(std::string(text.substr(open + 2, close - open - 2)), where);
    text.remove_prefix(close + 1);
  }
  if (expanded.empty()) return expanded;
  if (folder.empty()) return expanded;
  const fs::path path = fs::path(folder) / expanded;
  // Shorten "a/../b" to "b", unless `a` is a link and the two differ.
  const fs::path normal = path.lexically_normal();
  const auto resolved = [](const fs::path& relative) {
    std::error_code error;
    const fs::path place = fs::weakly_canonical(fs::absolute(relative, error), error);
    return error ? relative : place;
  };
  return (resolved(path) == resolved(normal) ? normal : path).string();
}

Matches match_files(const std::string& pattern, const std::string& where) {
  std::error_code error;
  if (fs::is_regular_file(pattern, error)) return {{pattern}, ""};
  const fs::path path(pattern);
  std::vector<std::string> components;
  for (const fs::path& part : path.relative_path()) {
    // Skip the second "**" of "**/**", which would find every file several times.
    if (part == "**" && !components.empty() && components.back() == "**") continue;
    if (!part.empty()) components.push_back(part.string());
  }
  if (!components.empty() && components.back() == "**") components.push_back("*");
  Matches found;
  match(path.root_path(), components, 0, where, found);
  std::vector<std::string>& files = found.files;
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return found;
}

}  // namespace detail

}  // namespace sluice
