#pragma once

#include <optional>

#include "sluice/checkpoint.h"
#include "sluice/error.h"

namespace sluice {

// Returns a broken rule of manifest.h (.what) and its entry (.where).
std::optional<ErrorText> broken_rule(const Manifest& manifest);

}  // namespace sluice
