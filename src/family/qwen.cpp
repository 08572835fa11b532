// Follows transformers' Qwen2Config and Qwen3Config.
#include "family/qwen.h"

namespace sluice::detail {
namespace {

constexpr std::int64_t kMaxPositions = 32768;

constexpr DecoderSizes kSizes = {151936, 4096, 22016, 32, 32};
constexpr std::int64_t kKeyValueHeads = 32;  // default, independent of query heads

void read_windows(const ConfigReader& config, DecoderConfig& out) {
  const bool slides = config.flag("use_sliding_window", false);
  const std::optional<std::int64_t> window =
      slides ? read_window(config, 4096) : std::optional<std::int64_t>();
  std::int64_t first = 28;
  if (const std::optional<double> given = config.number("max_window_layers")) {
    first = *given < 1 ? 0 : config.size("max_window_layers", first);
  }
  std::vector<bool> has_window;
  for (std::int64_t i = 0; i < out.num_layers; ++i) has_window.push_back(window && i >= first);
  set_windows(out, config, window, has_window);
}

}  // namespace

DecoderConfig read_qwen2_config(const ConfigReader& config) {
  DecoderConfig out = read_decoder_config(config, {.sizes = kSizes,
                                                   .num_key_value_heads = kKeyValueHeads,
                                                   .max_position_embeddings = kMaxPositions});
  out.qkv_bias = true;
  read_windows(config, out);
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

DecoderConfig read_qwen3_config(const ConfigReader& config) {
  DecoderConfig out = read_decoder_config(config, {.sizes = kSizes,
                                                   .num_key_value_heads = kKeyValueHeads,
                                                   .head_dim = 128,
                                                   .max_position_embeddings = kMaxPositions});
  out.qkv_bias = out.output_bias = config.flag("attention_bias", false);
  out.head_norms = HeadNorms::kEach;
  read_windows(config, out);
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

}  // namespace sluice::detail
