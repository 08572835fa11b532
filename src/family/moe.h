// Mixtral, Qwen3-MoE and OLMoE: decoders with experts behind attention.
//
// Owns: meaning of their config.json.
// Does not own: settings that all share (decoder_config.h), experts (experts.h), modules.
// Thread-safety: values.
#pragma once

#include <vector>

#include "family/decoder_config.h"
#include "family/experts.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct MoeConfig : BlockExperts {
  DecoderConfig decoder;
  int num_sparse() const;
};

// All throw Error(kInput) naming the field.
MoeConfig read_mixtral_config(const ConfigReader& config);
MoeConfig read_qwen3_moe_config(const ConfigReader& config);
MoeConfig read_olmoe_config(const ConfigReader& config);

ModelSpec moe_model(const MoeConfig& config, const Precision& precision);

}  // namespace sluice::detail
