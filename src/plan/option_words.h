// The words of every option that is an enum.
// Thread-safety: the tables are immutable.
#pragma once

#include "base/log.h"
#include "base/words.h"
#include "sluice/model_spec.h"
#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/plan.h"
#include "sluice/verify.h"

namespace sluice::detail {

// The argument only says of which enum.
const Words<OptimizerKind>& words_of(OptimizerKind);
const Words<Decay>& words_of(Decay);
const Words<GradientScale::Kind>& words_of(GradientScale::Kind);  // kDivisor is a number, no word
const Words<Rounding>& words_of(Rounding);                        // kNone is ""
const Words<Placement>& words_of(Placement);
const Words<LogLevel>& words_of(LogLevel);
const Words<Reduction>& words_of(Reduction);
const Words<LossChunks>& words_of(LossChunks);
const Words<Balance>& words_of(Balance);
const Words<ProofTransport>& words_of(ProofTransport);

// The range of GradientScale::divisor: what is divided by it stays in the range of float32.
inline constexpr double kLeastDivisor = 1e-30, kMostDivisor = 1e30;

}  // namespace sluice::detail
