#pragma once

#include "engine/run_groups.h"
#include "sluice/parts/group.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/values.h"
#include "train/fingerprint.h"

namespace sluice {

// Checks that all ranks make the same call. Collective over all ranks. Throws Error(kUsage) if
// ranks differ in call, autocast state, options or, within a replica, batch. With several replicas,
// sets batch.first_microbatch and batch.total_count.
void agree(const RunGroups& groups, StepBatch& batch, const StepOptions& options, const char* call,
           Compared compared);

// Throws Error(kUsage) unless all ranks of `world` make this call now. Collective.
void require_call(const Group& world, const char* call);

// The `call` that a rank whose user function has returned sends to other ranks.
inline constexpr const char* kEndOfBody = "nothing more: its body has returned";

}  // namespace sluice
