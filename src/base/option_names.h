// Options in messages: the library writes each in backquotes, as `num_microbatches`, and a command
// that has another name for it puts that there, as --microbatches.
// Thread-safety: pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice {

// The caller's name for an option of the library; "": it has none.
using NameOfOption = std::function<std::string(std::string_view option)>;

// The text with the caller's names, without backquotes. What has no name stays as it is, and so
// does all that is not in backquotes.
std::string with_names(std::string_view text, const NameOfOption& name_of);

// The same error with the names in its fact, its place and its remedy.
Error with_names(const Error& error, const NameOfOption& name_of);

// The first word of a text that is in backquotes, without them; "": there is none.
std::string first_option(std::string_view text);

}  // namespace sluice
