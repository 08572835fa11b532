// Paths of the configuration: ~ and ${VAR}, relative folders, wildcards.
//
// Thread-safety: pure functions of the file system and the environment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

// Replaces a leading "~" by HOME and every ${NAME} by the variable; a relative result is put below
// `folder` ("": left relative). Throws Error(kUsage) naming an unset variable or an open "${".
std::string expand_path(std::string_view text, const std::string& folder, const std::string& where);

bool has_wildcard(std::string_view component);

struct Matches {
  std::vector<std::string> files;
  std::string other;  // a match that is not a regular file, "" for none
};
// The regular files that `pattern` names, sorted by name: `*`, `?` and `[...]` match within a path
// component (not a leading dot), `**` as a whole component matches any number of folders (not those
// that start with a dot; links to folders are not entered), and at the end every file below them. A
// pattern that exists as it stands is that file. Throws Error(kInput) for a folder that cannot be
// read.
Matches match_files(const std::string& pattern, const std::string& where);

}  // namespace sluice::detail
