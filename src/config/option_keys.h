// Translates the library's messages about options into configuration keys, and adds the places
// where the keys were set.
#pragma once

#include <string>

#include "config/run_config.h"
#include "sluice/error.h"

namespace sluice::detail {

// Replaces each option name in the text by its key (base/option_names.h).
std::string with_keys(const std::string& text);
Error with_keys(const Error& error);

// Like with_keys(), and appends the place where the first named option was set, if it was.
std::string with_keys_and_place(const RunConfig& config, const std::string& text);

// Appends "; PLACE" if the key ("section.name") was set.
std::string with_place(const RunConfig& config, const std::string& key, const std::string& text);

// Replaces options by keys, and error.where() by the place where its key was set. For an error
// about the split, lists the places of all keys that decide the split (Key::decides_split).
Error with_places(const RunConfig& config, const Error& error);

}  // namespace sluice::detail
