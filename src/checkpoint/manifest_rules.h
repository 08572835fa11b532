#pragma once

#include <optional>

#include "sluice/checkpoint.h"
#include "sluice/error.h"

namespace sluice {

// Returns a broken invariant of manifest.h (.what) and the entry that breaks it (.where).
std::optional<ErrorText> broken_rule(const Manifest& manifest);

}  // namespace sluice
