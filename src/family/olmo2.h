// OLMo 2: norms behind attention and feed-forward alone, and of queries and keys over all heads.
//
// Owns: meaning of its config.json.
// Does not own: settings that all share (decoder_config.h), layers (decoder_model.h), modules.
// Thread-safety: values.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

// Throws Error(kInput) naming the field.
DecoderConfig read_olmo2_config(const ConfigReader& config);

}  // namespace sluice::detail
