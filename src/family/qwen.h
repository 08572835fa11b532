// Qwen2 (biases on q, k and v) and Qwen3 (norms per head of q and k). Later layers may have sliding
// windows.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

DecoderConfig read_qwen2_config(const ConfigReader& config);
DecoderConfig read_qwen3_config(const ConfigReader& config);

}  // namespace sluice::detail
