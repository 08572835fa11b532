#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

// Expands a leading "~" and each ${NAME}, then prepends `folder` to a relative path. Throws
// Error(kUsage) for an unset variable or an unclosed "${".
std::string expand_path(std::string_view text, const std::string& folder, const std::string& where);

bool has_wildcard(std::string_view component);

struct Matches {
  std::vector<std::string> files;
  std::string other;  // a match that is not a regular file
};
// Returns the regular files that match `pattern`, sorted by name. `*`, `?` and `[...]` match within
// one path component, but not a leading dot. A component `**` matches any number of folders, except
// hidden folders and links, and at the end all files below. A file whose name equals the pattern is
// the only match. Throws Error(kInput) for an unreadable folder.
Matches match_files(const std::string& pattern, const std::string& where);

}  // namespace sluice::detail
