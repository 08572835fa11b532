// Gemma 2 and the text model of Gemma 3: scaled embeddings, norms before and after both block
// halves, sliding windows on most layers. Gemma 2 caps scores, Gemma 3 norms queries and keys.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

DecoderConfig read_gemma2_config(const ConfigReader& config);
DecoderConfig read_gemma3_config(const ConfigReader& config);

}  // namespace sluice::detail
