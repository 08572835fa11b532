// What all ranks of a pipeline have to say alike before a step.
#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/step_batch.h"
#include "sluice/pipeline.h"

namespace sluice {

// Collective. Throws Error(kUsage) on every rank that disagrees with another: in the call, in what
// the microbatches hold (as far as a few of their elements tell) and count, in the autocast state,
// or in the options. call: "train_step".
void require_agreement(const Group& world, const StepBatch& batch, const StepOptions& options,
                       const char* call);

// Collective. Throws Error(kUsage) unless all ranks make this call now.
void require_call(const Group& world, const char* call);

// In place of a call: this rank's body has returned.
inline constexpr const char* kEndOfBody = "nothing more: its body has returned";

}  // namespace sluice
