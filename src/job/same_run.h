// Whether all processes were started for the same run: same program, model, data and settings.
// Thread-safety: one call a rank, each on its own thread.
#pragma once

#include <map>
#include <string>

#include "job/fingerprints.h"
#include "sluice/parts/group.h"
#include "sluice/plan.h"
#include "sluice/run_config.h"

namespace sluice {

// What has to be the same in every process, by what a user would call it: versions, kind of CPU
// kernels, instructions of the plan, contents of model and data, and every setting but paths, what
// is printed and what is waited for. threads_per_rank: as resolved on this machine.
std::map<std::string, std::string> identity_of(const RunConfig& config, const Plan& plan,
                                               const RunFingerprints& made_of,
                                               int threads_per_rank);

// Collective over all ranks. Throws Error(kUsage), the same on every rank, naming the first rank
// whose process differs from that of rank 0, and in what.
void require_same_run(const std::map<std::string, std::string>& identity, const Group& world);

}  // namespace sluice
