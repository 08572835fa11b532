// Files that a command writes on request.
//
// Owns: writing one whole file so that nobody sees half of it. Does not own: what is in it.
// Thread-safety: independent calls may run at once; of two to one path the last one stays.
#pragma once

#include <string>

namespace sluice {

// Replaces the file `path` by `text` at once: through a temporary file beside it, so that a failure
// leaves what was there. A link is followed; what is no regular file (a pipe), and stdout
// or stderr whatever they are, is written as it is. Throws Error(kUsage) with the system's reason;
// `option` names who asked.
void write_output_file(const std::string& path, const std::string& text, const std::string& option);

// Checks that the file can be written, and leaves nothing behind. Throws Error(kUsage): no such
// folder, a folder in its place, nothing that may be written to.
void check_output_file(const std::string& path, const std::string& option);

}  // namespace sluice
