#pragma once

#include "base/words.h"
#include "config/run_config.h"

namespace sluice::detail {

// The argument only selects the overload.
const Words<ParameterType>& words_of(ParameterType);
const Words<MixedPrecision>& words_of(MixedPrecision);
const Words<FusedOperators>& words_of(FusedOperators);
const Words<DeviceKind>& words_of(DeviceKind);
const Words<TransportKind>& words_of(TransportKind);
const Words<Commit>& words_of(Commit);
const Words<OnSaveError>& words_of(OnSaveError);

}  // namespace sluice::detail
