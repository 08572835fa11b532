// The library writes option names in backquotes, as `num_microbatches`. A command replaces them by
// its own names, as --microbatches.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice {

// Returns the caller's name of a library option, or "" if it has none.
using NameOfOption = std::function<std::string(std::string_view option)>;

// Replaces backquoted options by the caller's names. Options without a name keep their backquotes.
std::string with_names(std::string_view text, const NameOfOption& name_of);

// Replaces the names in all three parts of the error.
Error with_names(const Error& error, const NameOfOption& name_of);

// The first backquoted word of a text, or "".
std::string first_option(std::string_view text);

}  // namespace sluice
