#pragma once

#include <string>

namespace sluice {

// If `path` does not exist and looks like a Hugging Face Hub model ("Qwen/Qwen2.5-0.5B"), returns
// advice with the download command. Otherwise "".
std::string download_advice(const std::string& path);

}  // namespace sluice
