// Mixtral, Qwen3-MoE and OLMoE: decoders with experts behind attention.
//
// Owns: meaning of their config.json.
// Does not own: what they share with all (decoder_config.h), experts (experts.h), modules.
// Thread-safety: values.
#pragma once

#include <vector>

#include "plan/families/decoder_config.h"
#include "plan/families/experts.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct MoeConfig {
  DecoderConfig decoder;
  ExpertsConfig experts;
  std::vector<bool> has_experts;  // of every block; the others have the decoder's gated MLP
  int num_sparse() const;
};

// All throw Error(kInput) naming the field.
MoeConfig read_mixtral_config(const ConfigReader& config);
MoeConfig read_qwen3_moe_config(const ConfigReader& config);
MoeConfig read_olmoe_config(const ConfigReader& config);

ModelSpec moe_model(const MoeConfig& config, const Precision& precision);

}  // namespace sluice::detail
