#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Appends a hash and closes the JSON object.
std::string seal(std::string text);
// Returns the text before the seal. Throws Error(kCheckpoint) if the seal is missing or wrong.
std::string_view unsealed(std::string_view text, const std::string& file);

}  // namespace sluice
