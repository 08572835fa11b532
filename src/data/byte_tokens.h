// Text becomes one token a byte, where the model allows it.
// Thread-safety: pure functions, but for a look at the model's folder.
#pragma once

#include <string>

#include "data/sequence_source.h"
#include "sluice/data.h"

namespace sluice::data {

// Why text may not become bytes: another tokenizer is asked for, or the model brings one. "" if it
// may.
std::string refusal_of_bytes(const TokenDataOptions& options);

// Throws Error(kInput / kUsage) unless text may become byte-level tokens of this vocabulary.
void require_byte_tokens(const SourceOptions& options, const std::string& where);

}  // namespace sluice::data
