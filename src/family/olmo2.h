// OLMo 2: norms only after attention and feed-forward, and of queries and keys over all heads.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

DecoderConfig read_olmo2_config(const ConfigReader& config);

}  // namespace sluice::detail
