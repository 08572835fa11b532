// The library writes option names such as `num_microbatches` in backquotes. A command replaces
// them, here by --microbatches.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice {

// Returns "" for an option that the command lacks.
using NameOfOption = std::function<std::string(std::string_view option)>;

// Options without a name keep their backquotes.
std::string with_names(std::string_view text, const NameOfOption& name_of);

Error with_names(const Error& error, const NameOfOption& name_of);

std::string first_option(std::string_view text);

}  // namespace sluice
