// Llama, and families with the same decoder and other settings: Mistral, Granite, SmolLM3.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

DecoderConfig read_llama_config(const ConfigReader& config);
DecoderConfig read_mistral_config(const ConfigReader& config);
DecoderConfig read_granite_config(const ConfigReader& config);
DecoderConfig read_smollm3_config(const ConfigReader& config);

}  // namespace sluice::detail
