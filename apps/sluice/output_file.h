#pragma once

#include <string>

namespace sluice {

// Replaces the file that the user named with `option`, by a temporary file, so that a failure
// leaves the old file. Writes directly to devices, stdout, stderr and pipes opened by the shell
// (/dev/fd/63). Follows links only within the file's folder. Throws Error(kUsage) for system errors
// and links to other folders.
void write_output_file(const std::string& path, const std::string& text, const std::string& option);

// Replaces a file that sluice names, such as FOLDER/report.html. Unlike write_output_file(),
// replaces a link itself. Error messages suggest `option`.
void replace_own_file(const std::string& path, const std::string& text, const std::string& option);

// Throws Error(kUsage) if the file cannot be written, is a folder, or links to another folder.
// Creates nothing.
void check_output_file(const std::string& path, const std::string& option);

}  // namespace sluice
