// Mixtral, Qwen3-MoE and OLMoE: decoders with experts.
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

MoeConfig read_mixtral_config(const ConfigReader& config);
MoeConfig read_qwen3_moe_config(const ConfigReader& config);
MoeConfig read_olmoe_config(const ConfigReader& config);

ModelSpec moe_model(const MoeConfig& config, const Precision& precision);

}  // namespace sluice::detail
