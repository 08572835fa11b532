// Field meanings and defaults are those of transformers' Qwen2Config.
#include "plan/families/qwen2.h"

namespace sluice::detail {

LlamaConfig read_qwen2_config(const ConfigReader& config) {
  config.require_flag("use_sliding_window", false, false);
  // transformers would take 32, whatever the number of query heads.
  config.required_size({"num_key_value_heads"});
  LlamaConfig out = read_llama_config(config);
  // Not keys of this family.
  out.qkv_bias = true;
  out.output_bias = out.mlp_bias = false;
  return out;
}

ModelSpec read_qwen2(const ConfigReader& config, const Precision& precision) {
  return llama_model(read_qwen2_config(config), precision);
}

}  // namespace sluice::detail
