// Gemma 2 and the text model of Gemma 3: scaled embeddings, norms on both sides of attention and
// feed-forward, windows on most layers; soft caps, or norms of every head of queries and keys.
//
// Owns: meaning of their config.json.
// Does not own: settings that all share (decoder_config.h), layers (decoder_model.h), modules.
// Thread-safety: values.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

// All throw Error(kInput) naming the field.
DecoderConfig read_gemma2_config(const ConfigReader& config);
DecoderConfig read_gemma3_config(const ConfigReader& config);

}  // namespace sluice::detail
