// Field meanings and defaults are those of transformers' LlamaConfig and MistralConfig.
#include "plan/families/llama.h"

#include "plan/families/decoder_model.h"

namespace sluice::detail {

DecoderConfig read_llama_config(const ConfigReader& config) {
  DecoderConfig out = read_decoder_config(config, {.heads_divide_hidden_size = true});
  out.qkv_bias = out.output_bias = config.flag("attention_bias", false);
  out.mlp_bias = config.flag("mlp_bias", false);
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

DecoderConfig read_mistral_config(const ConfigReader& config) {
  DecoderConfig out =
      read_decoder_config(config, {.num_key_value_heads = 8, .max_position_embeddings = 4096 * 32});
  // transformers would go on without the types.
  if (config.has("layer_types"))
    config.fail("layer_types", "layers of several types are not this family's",
                "leave it out: sliding_window is of all layers");
  const std::optional<std::int64_t> window = read_window(config, 4096);
  for (BlockConfig& block : out.blocks) block.window = window.value_or(0);
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

ModelSpec read_llama(const ConfigReader& config, const Precision& precision) {
  return decoder_model(read_llama_config(config), precision);
}
ModelSpec read_mistral(const ConfigReader& config, const Precision& precision) {
  return decoder_model(read_mistral_config(config), precision);
}

}  // namespace sluice::detail
