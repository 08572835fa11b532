// Which files a checkpoint is made of.
// Thread-safety: pure functions, but for reading the manifest.
#pragma once

#include <cstdint>
#include <string>

#include "io/published_directory.h"

namespace sluice {

// Of the directories that checkpoints are published as.
io::DirectoryKind checkpoint_kind();

// "step-00000012".
std::string step_folder_name(std::int64_t step);

}  // namespace sluice
