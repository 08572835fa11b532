// Replaces option names in the library's messages by configuration keys, and adds where they were
// set.
#pragma once

#include <string>

#include "config/run_config.h"
#include "sluice/error.h"

namespace sluice::detail {

std::string with_keys(const std::string& text);
Error with_keys(const Error& error);

// Also appends where the first named option was set, if it was.
std::string with_keys_and_place(const RunConfig& config, const std::string& text);

// Appends "; PLACE" if the key ("section.name") was set.
std::string with_place(const RunConfig& config, const std::string& key, const std::string& text);

// Also replaces error.where() by the place where its key was set. An error about the split into
// stages lists the places of all keys with Key::affects_split.
Error with_places(const RunConfig& config, const Error& error);

}  // namespace sluice::detail
