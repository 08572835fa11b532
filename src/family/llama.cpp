// Follows transformers' LlamaConfig, MistralConfig, GraniteConfig and
// SmolLM3Config.
#include "family/llama.h"

#include "base/format.h"

namespace sluice::detail {
namespace {

// Layers with 1 in no_rope_layers are rotated. By default, all but every n-th are.
std::vector<bool> read_rotated_layers(const ConfigReader& config, std::int64_t num_layers) {
  const char* const key = "no_rope_layers";
  std::vector<bool> turned;
  if (config.has(key)) {
    const std::vector<std::int64_t> given = config.sizes(key, 0, 1);
    if (given.size() < static_cast<std::size_t>(num_layers)) {
      config.fail(key, formatted("it has {} entries for {} layers", given.size(), num_layers),
                  "write one per layer, where 1 means rotary positions");
    }
    for (std::int64_t i = 0; i < num_layers; ++i)
      turned.push_back(given[static_cast<std::size_t>(i)] == 1);
    return turned;
  }
  const std::int64_t interval = config.size("no_rope_layer_interval", 4);
  for (std::int64_t i = 0; i < num_layers; ++i) turned.push_back((i + 1) % interval != 0);
  return turned;
}

}  // namespace

DecoderConfig read_llama_config(const ConfigReader& config) {
  DecoderConfig out = read_decoder_config(
      config, {.sizes = {32000, 4096, 11008, 32, 32}, .heads_divide_hidden_size = true});
  out.qkv_bias = out.output_bias = config.flag("attention_bias", false);
  out.mlp_bias = config.flag("mlp_bias", false);
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

DecoderConfig read_mistral_config(const ConfigReader& config) {
  DecoderConfig out = read_decoder_config(config, {.sizes = {32000, 4096, 14336, 32, 32},
                                                   .num_key_value_heads = 8,
                                                   .max_position_embeddings = 4096 * 32});
  // transformers would ignore layer_types here.
  if (config.has("layer_types"))
    config.fail("layer_types", "this family has no layers of several types",
                "leave it out: sliding_window applies to all layers");
  const std::optional<std::int64_t> window = read_window(config, 4096);
  for (BlockConfig& block : out.blocks) block.window = window.value_or(0);
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

DecoderConfig read_granite_config(const ConfigReader& config) {
  constexpr double kLargest = 1e9;
  DecoderConfig out = read_decoder_config(config, {.sizes = {32000, 4096, 11008, 32, 32}});
  out.qkv_bias = out.output_bias = config.flag("attention_bias", false);
  out.mlp_bias = config.flag("mlp_bias", false);
  out.embedding_scale = config.number("embedding_multiplier", 1.0, -kLargest, kLargest);
  out.attention_scale = config.number("attention_multiplier", 1.0, -kLargest, kLargest);
  out.residual_scale = config.number("residual_multiplier", 1.0, -kLargest, kLargest);
  out.logit_divisor = config.number("logits_scaling", 1.0, -kLargest, kLargest);
  if (out.logit_divisor == 0)
    config.fail("logits_scaling", "logits cannot be divided by 0", "write another number");
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

DecoderConfig read_smollm3_config(const ConfigReader& config) {
  DecoderConfig out = read_decoder_config(config, {.sizes = {128256, 2048, 11008, 36, 16},
                                                   .num_key_value_heads = 4,
                                                   .max_position_embeddings = 32768,
                                                   .pad_token_id = 128004,
                                                   .tie_word_embeddings = true});
  out.qkv_bias = out.output_bias = config.flag("attention_bias", false);
  out.mlp_bias = config.flag("mlp_bias", false);
  const std::vector<bool> turned = read_rotated_layers(config, out.num_layers);
  const std::optional<std::int64_t> window = read_window(config, std::nullopt);
  const bool slides = config.flag("use_sliding_window", false) && window;
  std::vector<bool> has_window;
  for (std::size_t i = 0; i < turned.size(); ++i) {
    has_window.push_back(slides && !turned[i]);
    if (!turned[i]) out.blocks[i].rope = -1;
  }
  set_windows(out, config, window, has_window);
  out.ropes = {read_rope(config, out.max_position_embeddings, 2e6)};
  return out;
}

}  // namespace sluice::detail
