// OLMo 2: norms only after attention and feed-forward. Norms of queries and keys cover all heads
// together.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

DecoderConfig read_olmo2_config(const ConfigReader& config);

}  // namespace sluice::detail
