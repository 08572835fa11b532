// Qwen2: Llama with biases on the projections of queries, keys and values.
//
// Owns: meaning of its config.json. Does not own: layers and costs (llama.h), modules.
// Thread-safety: values.
#pragma once

#include "plan/families/llama.h"

namespace sluice::detail {

// Throws Error(kInput) naming the field.
LlamaConfig read_qwen2_config(const ConfigReader& config);

ModelSpec read_qwen2(const ConfigReader& config, const Precision& precision);

}  // namespace sluice::detail
