// Whether the ranks of all processes see one folder: found out before the first step, since the
// first checkpoint may be the last thing that a run does.
// Thread-safety: one call a rank, each on its own thread.
#pragma once

#include <string>

#include "sluice/parts/group.h"

namespace sluice {

// Collective over all ranks. The folder, or its nearest parent that is there, gets a folder for a
// moment. Throws Error(kCheckpoint), the same on every rank, naming the first rank that does not
// see it.
void require_shared_folder(const std::string& folder, const Group& world);

}  // namespace sluice
