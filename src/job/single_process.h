// What a run needs of its process: to be the only one, and to be somewhere.
// Thread-safety: reads the environment and the working folder.
#pragma once

namespace sluice {

// Throws Error(kUsage) when the environment says that a launcher has started this process as one of
// several (WORLD_SIZE of torchrun, and what mpirun and srun set), or says no number there.
void require_single_process();

// Throws Error(kUsage) when the working folder was removed: LibTorch finds its own parts no more.
void require_working_folder();

}  // namespace sluice
