#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Appends a hash of the text as last key, and closes the JSON object.
std::string seal(std::string text);
// Returns the text before the hash. Throws Error(kCheckpoint) if the hash is missing or wrong.
std::string_view unsealed(std::string_view text, const std::string& file);

}  // namespace sluice
