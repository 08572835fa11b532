#pragma once

#include <string>
#include <vector>

#include "sluice/error.h"

namespace sluice::detail {

// Suggests sluice's equivalent of another library's key, the right section, or the nearest name.
// `name` is "" for an unknown section or a key before the first section.
Error unknown_key(const std::string& section, const std::string& name, const std::string& where);

// `others` are known SLUICE_ variables that are not keys.
Error unknown_variable(const std::string& variable, const std::vector<std::string>& others);

}  // namespace sluice::detail
