// Qwen2 and Qwen3: biases on the projections of queries, keys and values, or norms of every head of
// queries and keys; windows on the later layers.
//
// Owns: meaning of their config.json.
// Does not own: settings that all share (decoder_config.h), layers (decoder_model.h), modules.
// Thread-safety: values.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

// All throw Error(kInput) naming the field.
DecoderConfig read_qwen2_config(const ConfigReader& config);
DecoderConfig read_qwen3_config(const ConfigReader& config);

}  // namespace sluice::detail
