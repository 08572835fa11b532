#pragma once

#include "engine/run_groups.h"
#include "sluice/parts/group.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/values.h"
#include "train/fingerprint.h"

namespace sluice {

// Collective. Throws Error(kUsage) if ranks differ in call, autocast state, options or, within a
// replica, batch. With several replicas, sets batch.first_microbatch and batch.total_count. call:
// for example "train_step".
void agree(const RunGroups& groups, StepBatch& batch, const StepOptions& options, const char* call,
           Compared compared);

// Collective. Throws Error(kUsage) unless all ranks make this call now.
void require_call(const Group& world, const char* call);

// Compared with other ranks' calls once this rank's body has returned.
inline constexpr const char* kEndOfBody = "nothing more: its body has returned";

}  // namespace sluice
