// A launcher's processes: not built yet, so that a run is one process.
// Thread-safety: reads the environment.
#pragma once

namespace sluice {

// Throws Error(kUsage) when the environment says that a launcher has started this process as one of
// several (WORLD_SIZE of torchrun, and what mpirun and srun set), or says no number there.
void require_single_process();

}  // namespace sluice
