// Llama, and the families that are its decoder with other settings: Mistral, Granite, SmolLM3.
//
// Owns: meaning of their config.json.
// Does not own: settings that all share (decoder_config.h), layers (decoder_model.h), modules.
// Thread-safety: values.
#pragma once

#include "family/decoder_config.h"

namespace sluice::detail {

// All throw Error(kInput) naming the field.
DecoderConfig read_llama_config(const ConfigReader& config);
DecoderConfig read_mistral_config(const ConfigReader& config);
DecoderConfig read_granite_config(const ConfigReader& config);
DecoderConfig read_smollm3_config(const ConfigReader& config);

}  // namespace sluice::detail
