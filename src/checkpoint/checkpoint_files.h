// The files of a checkpoint.
// Thread-safety: pure functions, but for reading the manifest.
#pragma once

#include "io/published_directory.h"

namespace sluice {

// The kind of directory that checkpoints are published as.
io::DirectoryKind checkpoint_kind();

}  // namespace sluice
