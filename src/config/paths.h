// Expands paths of the configuration: ~, ${VAR}, relative paths and wildcards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

// Replaces a leading "~" by HOME and each ${NAME} by that environment variable. Puts a relative
// result below `folder`, unless `folder` is "". Throws Error(kUsage) for an unset variable or an
// unclosed "${".
std::string expand_path(std::string_view text, const std::string& folder, const std::string& where);

bool has_wildcard(std::string_view component);

struct Matches {
  std::vector<std::string> files;
  std::string other;  // a match that is not a regular file, or ""
};
// Returns the regular files that match `pattern`, sorted by name. `*`, `?` and `[...]` match within
// one path component, but not a leading dot. `**` as a whole component matches any number of
// folders, except hidden folders and links. At the end of a pattern it matches every file below
// them. If a file is named exactly like the pattern, only that file matches. Throws Error(kInput)
// for a folder that cannot be read.
Matches match_files(const std::string& pattern, const std::string& where);

}  // namespace sluice::detail
