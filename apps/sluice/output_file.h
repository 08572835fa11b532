// Files that a command writes on request.
//
// Owns: writing one whole file so that nobody sees half of it. Does not own: what is in it.
// Thread-safety: independent calls may run at once; of two to one path the last one stays.
#pragma once

#include <string>

namespace sluice {

// Replaces the file `path`, which the user named, by `text` at once: through a temporary file
// beside it, so that a failure leaves what was there. A device, stdout and stderr (/dev/stdout) and
// a pipe that the shell has opened (/dev/fd/63) are written directly. A link to another file of its
// folder is followed. Throws Error(kUsage): the system's reason, or a link that leads to a regular
// file elsewhere; `option` named the file.
void write_output_file(const std::string& path, const std::string& text, const std::string& option);

// The same for a file whose name is ours, such as FOLDER/report.html: a link in its place is
// replaced. `option` chooses another folder.
void replace_own_file(const std::string& path, const std::string& text, const std::string& option);

// Checks that the file can be written, and leaves nothing behind. Throws Error(kUsage): no such
// folder, a folder in its place, a link that leads elsewhere, nothing that may be written to.
void check_output_file(const std::string& path, const std::string& option);

}  // namespace sluice
