// The end of a manifest: a hash of all that is before it. No torch.
//
// Owns: the form of the last key. Does not own: the rest of the text.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// text: an open JSON object without its end, "{..., \"files\": []". Returns the whole.
std::string seal(std::string text);
// The text before the seal. Throws Error(kCheckpoint) naming `file`: no seal, or one of another
// text.
std::string_view unsealed(std::string_view text, const std::string& file);

}  // namespace sluice
