// Phi-3: one matrix for queries, keys and values, one for gate and up; part of every head turned;
// "longrope" for long contexts.
//
// Owns: meaning of its config.json.
// Does not own: settings that all share (decoder_config.h), layers (decoder_model.h), modules.
// Thread-safety: values.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

// Throws Error(kInput) naming the field.
DecoderConfig read_phi3_config(const ConfigReader& config);

}  // namespace sluice::detail
