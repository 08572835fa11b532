// The invariants of a manifest (manifest.h), as a check. No torch.
// Thread-safety: pure functions.
#pragma once

#include <optional>

#include "sluice/checkpoint.h"
#include "sluice/error.h"

namespace sluice {

// The broken rule (.what) and its entry (.where); nullopt: nothing.
std::optional<ErrorText> broken_rule(const Manifest& manifest);

}  // namespace sluice
