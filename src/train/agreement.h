// Checks before a step that all ranks make the same call, and exchanges the counts of the replicas.
#pragma once

#include "engine/run_groups.h"
#include "sluice/parts/group.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/values.h"
#include "train/fingerprint.h"

namespace sluice {

// Collective. Throws Error(kUsage) on every rank that differs from another rank in the call, the
// autocast state or the options. Within one replica, the counts and the compared elements of the
// batch must match too. With several replicas, sets batch.first_microbatch and batch.total_count
// from the batches of all replicas. call: for example "train_step".
void agree(const RunGroups& groups, StepBatch& batch, const StepOptions& options, const char* call,
           Compared compared);

// Collective. Throws Error(kUsage) unless all ranks make this call now.
void require_call(const Group& world, const char* call);

// The `call` of a rank whose body has returned.
inline constexpr const char* kEndOfBody = "nothing more: its body has returned";

}  // namespace sluice
