#pragma once

#include "base/log.h"
#include "base/words.h"
#include "sluice/model_spec.h"
#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/plan.h"
#include "sluice/verify.h"

namespace sluice::detail {

// Returns the spellings of the enumeration that is the argument's type.
const Words<OptimizerKind>& words_of(OptimizerKind);
const Words<Decay>& words_of(Decay);
const Words<GradientScale::Kind>& words_of(GradientScale::Kind);  // kDivisor has no spelling
const Words<Rounding>& words_of(Rounding);                        // kNone is ""
const Words<Placement>& words_of(Placement);
const Words<LogLevel>& words_of(LogLevel);
const Words<Reduction>& words_of(Reduction);
const Words<LossChunks>& words_of(LossChunks);
const Words<Balance>& words_of(Balance);
const Words<ProofTransport>& words_of(ProofTransport);

// Limits of GradientScale::divisor that keep quotients in the range of float32.
inline constexpr double kLeastDivisor = 1e-30, kMostDivisor = 1e30;

}  // namespace sluice::detail
