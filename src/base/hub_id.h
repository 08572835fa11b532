#pragma once

#include <string>

namespace sluice {

// Returns advice with the download command if `path` does not exist and looks like a Hugging Face
// Hub model ("Qwen/Qwen2.5-0.5B"), else "".
std::string download_advice(const std::string& path);

}  // namespace sluice
