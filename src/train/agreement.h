// Facts on which all ranks have to agree before a step, and what replicas learn of each other
// there.
#pragma once

#include "engine/run_groups.h"
#include "sluice/parts/group.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/values.h"
#include "train/fingerprint.h"

namespace sluice {

// Collective. Throws Error(kUsage) on every rank that disagrees with another: in the call, in what
// the microbatches hold (as far as the elements tell that are compared) and count, in the autocast
// state, or in the options; of batches, only those of one replica have to agree. Sets where the
// batch stands among those of several replicas, and what all of them count. call: "train_step".
void agree(const RunGroups& groups, StepBatch& batch, const StepOptions& options, const char* call,
           Compared compared);

// Collective. Throws Error(kUsage) unless all ranks make this call now.
void require_call(const Group& world, const char* call);

// In place of a call: this rank's body has returned.
inline constexpr const char* kEndOfBody = "nothing more: its body has returned";

}  // namespace sluice
