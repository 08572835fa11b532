// Writes the files that a command creates. If two calls write one path at the same time, the last
// one wins.
#pragma once

#include <string>

namespace sluice {

// Replaces the file that the user named with `option`. A temporary file is written first, so a
// failure leaves the old file. Devices, stdout, stderr and pipes opened by the shell (/dev/fd/63)
// are written directly. Follows links within the file's folder only. Throws Error(kUsage) for
// system errors and for links to other folders.
void write_output_file(const std::string& path, const std::string& text, const std::string& option);

// Like write_output_file(), for a file that sluice names, such as FOLDER/report.html. Replaces a
// link instead of following it. `option` would choose another folder.
void replace_own_file(const std::string& path, const std::string& text, const std::string& option);

// Checks that the file can be written, and creates nothing. Throws Error(kUsage) for a missing
// folder or permission, for a folder of that name, and for a link to another folder.
void check_output_file(const std::string& path, const std::string& option);

}  // namespace sluice
