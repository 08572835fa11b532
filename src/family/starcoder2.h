// StarCoder2: layer norms and matrices with biases, a feed-forward without a gate, a window on all
// layers, dropout.
//
// Owns: meaning of its config.json.
// Does not own: layers and costs (decoder_model.h), modules (src/model/starcoder2.cpp).
// Thread-safety: pure functions.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

// Throws Error(kInput) naming the field.
DecoderConfig read_starcoder2_config(const ConfigReader& config);

}  // namespace sluice::detail
