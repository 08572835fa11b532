// Messages about a key, a section or a variable that does not exist.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/error.h"

namespace sluice::detail {

// The key `name` of `section`: another library's name, the right name in the wrong section, or the
// nearest one. An empty name: the section itself, or a key above the first section.
Error unknown_key(const std::string& section, const std::string& name, const std::string& where);

// A variable of the environment that starts with SLUICE_, sets no key and is none of `others`.
Error unknown_variable(const std::string& variable, const std::vector<std::string>& others);

}  // namespace sluice::detail
