// Follows transformers' Gemma2Config and Gemma3TextConfig.
#include "family/gemma.h"

#include <cmath>

namespace sluice::detail {
namespace {

constexpr double kLeastGemma = 1e-6, kMostGemma = 1e9;

std::optional<double> read_cap(const ConfigReader& config, const char* key,
                               std::optional<double> absent) {
  if (config.is_null(key)) return std::nullopt;
  if (!config.has(key)) return absent;
  return config.number(key, 0.0, kLeastGemma, kMostGemma);
}

DecoderConfig read_gemma(const ConfigReader& config, std::int64_t vocab_size,
                         std::int64_t max_position_embeddings) {
  config.require_flag("use_bidirectional_attention", false, false);
  DecoderConfig out =
      read_decoder_config(config, {.sizes = {vocab_size, 2304, 9216, 26, 8},
                                   .num_key_value_heads = 4,
                                   .head_dim = 256,
                                   .heads_divide_hidden_size = true,
                                   .max_position_embeddings = max_position_embeddings,
                                   .activation = "hidden_activation",
                                   .default_activation = "gelu_pytorch_tanh",
                                   .pad_token_id = 0,
                                   .tie_word_embeddings = true});
  out.qkv_bias = out.output_bias = config.flag("attention_bias", false);
  out.norm = NormKind::kRmsPlusOne;
  out.norm_places = NormPlaces::kBoth;
  out.attention_scale =
      1.0 / std::sqrt(config.number("query_pre_attn_scalar", 256.0, kLeastGemma, kMostGemma));
  out.embedding_scale = std::sqrt(static_cast<double>(out.hidden_size));
  out.embedding_scale_in_weight_type = true;
  return out;
}

// All blocks except every `period`-th have a sliding window.
void set_alternating_windows(DecoderConfig& out, const ConfigReader& config, std::int64_t period) {
  std::vector<bool> has_window;
  for (std::int64_t i = 0; i < out.num_layers; ++i) has_window.push_back((i + 1) % period != 0);
  set_windows(out, config, read_window(config, 4096), has_window);
}

// Reads rotary settings by layer type. transformers 4 wrote rope_theta, rope_scaling and
// rope_local_base_freq.
std::vector<RopeConfig> read_ropes(const ConfigReader& config,
                                   std::int64_t max_position_embeddings) {
  const std::optional<ConfigReader> both = config.object("rope_parameters");
  std::optional<ConfigReader> full, sliding;
  if (both) {
    for (const std::string& key : both->keys()) {
      if (key == "full_attention" || key == "sliding_attention") continue;
      both->fail(key, "this family has its rotary settings by layer type",
                 "write them into full_attention and sliding_attention");
    }
    full = both->object("full_attention");
    sliding = both->object("sliding_attention");
  }
  if (config.has("rope_scaling")) {
    if (both) {
      config.fail("rope_scaling", "rope_parameters is given too", "keep one of the two");
    }
    full = config.object("rope_scaling");
    if (!full->has("rope_type") && full->text("type", "default") != "default")
      full->fail("type", "transformers ignores 'type' here, so it would have no effect",
                 "write it as rope_type, or leave it out");
  }
  return {read_rope_settings(config, full, max_position_embeddings,
                             read_theta(config, "rope_theta", 1e6)),
          read_rope_settings(config, sliding, max_position_embeddings,
                             read_theta(config, "rope_local_base_freq", kUsualRopeTheta))};
}

}  // namespace

DecoderConfig read_gemma2_config(const ConfigReader& config) {
  DecoderConfig out = read_gemma(config, 256000, 8192);
  out.fully_masked_gets_mean = true;  // as in transformers, with or without caps
  out.attention_cap = read_cap(config, "attn_logit_softcapping", 50.0);
  out.logit_cap = read_cap(config, "final_logit_softcapping", 30.0);
  set_alternating_windows(out, config, 2);
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

DecoderConfig read_gemma3_config(const ConfigReader& config) {
  DecoderConfig out = read_gemma(config, 262208, 131072);
  // transformers ignores attn_logit_softcapping in Gemma 3.
  out.logit_cap = read_cap(config, "final_logit_softcapping", std::nullopt);
  out.head_norms = HeadNorms::kEach;
  set_alternating_windows(out, config, config.size("sliding_window_pattern", 6));
  out.ropes = read_ropes(config, out.max_position_embeddings);
  for (BlockConfig& block : out.blocks) block.rope = block.window > 0 ? 1 : 0;
  return out;
}

}  // namespace sluice::detail
