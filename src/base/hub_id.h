// Recognizes the name of a Hugging Face Hub model that a user gave in place of a folder.
// Thread-safety: pure functions of the file system.
#pragma once

#include <string>

namespace sluice {

// Advice with the download command if the path does not exist and ends like "Qwen/Qwen2.5-0.5B",
// else "".
std::string download_advice(const std::string& path);

}  // namespace sluice
