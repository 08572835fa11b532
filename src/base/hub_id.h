// Names of models of the Hugging Face Hub that a user gave in place of a folder.
// Thread-safety: pure functions of the file system.
#pragma once

#include <string>

namespace sluice {

// The command that downloads "Qwen/Qwen2.5-0.5B", for a path that does not exist and whose last two
// parts look like such a name. "" for every other path.
std::string download_advice(const std::string& path);

}  // namespace sluice
