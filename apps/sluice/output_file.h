#pragma once

#include <string>

namespace sluice {

// Replaces the file that the user named with `option`. A failure leaves the old file, because a
// temporary file is written first. Writes directly to devices, stdout, stderr and pipes opened by
// the shell (/dev/fd/63). Follows links only within the file's folder. Throws Error(kUsage) for
// system errors and links to other folders.
void write_output_file(const std::string& path, const std::string& text, const std::string& option);

// Like write_output_file(), but replaces a link. For files that sluice names, such as
// FOLDER/report.html. Errors suggest `option`.
void replace_own_file(const std::string& path, const std::string& text, const std::string& option);

// Creates nothing. Throws Error(kUsage) if the file cannot be written, is a folder, or links to
// another folder.
void check_output_file(const std::string& path, const std::string& option);

}  // namespace sluice
