// StarCoder2: layer norms and matrices with biases, feed-forward without gate, sliding windows,
// dropout.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

DecoderConfig read_starcoder2_config(const ConfigReader& config);

}  // namespace sluice::detail
