// Files that a command writes on request.
//
// Owns: writing one whole file so that nobody sees half of it. Does not own: what is in it.
// Thread-safety: independent calls may run at once; of two to one path the last one stays.
#pragma once

#include <string>

namespace sluice {

// Replaces the file that the user named with `option`. It writes a temporary file beside it, so a
// failure leaves the old file. Devices, stdout, stderr and a pipe that the shell has opened
// (/dev/fd/63) are written directly, and a link to a file of the same folder is followed. Throws
// Error(kUsage) for a failure of the system and for a link to a file elsewhere.
void write_output_file(const std::string& path, const std::string& text, const std::string& option);

// The same for a file that sluice names, such as FOLDER/report.html, but replaces a link in its
// place. `option` chooses another folder.
void replace_own_file(const std::string& path, const std::string& text, const std::string& option);

// Checks that the file can be written, and leaves nothing behind. Throws Error(kUsage) for a
// missing folder, a folder in its place, a link to a file elsewhere, and missing permissions.
void check_output_file(const std::string& path, const std::string& option);

}  // namespace sluice
