// The library's messages about its options, in the words of a configuration: keys, and the places
// where they were given.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "config/run_config.h"
#include "sluice/error.h"

namespace sluice::detail {

// A text with keys in place of the options that it names (base/option_names.h).
std::string with_keys(const std::string& text);
Error with_keys(const Error& error);

// The same, and behind it the place of the first option that the text names, if that was given.
std::string with_keys_and_place(const RunConfig& config, const std::string& text);

// "text; where its key was given", if it was. key: "section.name".
std::string with_place(const RunConfig& config, const std::string& key, const std::string& text);

// The error with keys, at the place where the key of the option error.where() was given; of a
// split, at all places where something that decides it was given (Key::decides_split).
Error with_places(const RunConfig& config, const Error& error);

}  // namespace sluice::detail
