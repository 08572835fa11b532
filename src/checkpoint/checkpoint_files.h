#pragma once

#include "io/published_directory.h"

namespace sluice {

io::DirectoryKind checkpoint_kind();

}  // namespace sluice
