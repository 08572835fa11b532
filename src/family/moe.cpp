// Follows transformers' MixtralConfig, Qwen3MoeConfig and OlmoeConfig.
#include "family/moe.h"

#include <algorithm>

#include "base/format.h"
#include "family/decoder_model.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

struct RoutingDefaults {
  std::int64_t num_experts, top_k;
  double coefficient;
};

void read_routing(const ConfigReader& config, const RoutingDefaults& defaults, ExpertsConfig& out) {
  constexpr std::int64_t kMaxExperts = 1 << 16;
  out.num_experts =
      config.size_of({"num_local_experts", "num_experts"}, defaults.num_experts, kMaxExperts);
  out.top_k = config.size("num_experts_per_tok", defaults.top_k);
  if (out.top_k > out.num_experts) {
    config.fail(
        "num_experts_per_tok",
        formatted("a token goes to {} experts, but there are only {}", out.top_k, out.num_experts),
        "write at most their number");
  }
  constexpr double kMaxCoefficient = 1e6;
  const double coefficient =
      config.number("router_aux_loss_coef", defaults.coefficient, 0.0, kMaxCoefficient);
  if (config.flag("output_router_logits", false)) out.balance_coefficient = coefficient;
}

}  // namespace

int MoeConfig::num_sparse() const {
  return static_cast<int>(std::count(has_experts.begin(), has_experts.end(), true));
}

MoeConfig read_mixtral_config(const ConfigReader& config) {
  MoeConfig out;
  out.decoder = read_decoder_config(config, {.sizes = {32000, 4096, 14336, 32, 32},
                                             .num_key_value_heads = 8,
                                             .max_position_embeddings = 4096 * 32,
                                             .default_norm_eps = 1e-5});
  for (BlockConfig& block : out.decoder.blocks)
    block.window = read_window(config, std::nullopt).value_or(0);
  out.decoder.ropes = {read_rope(config, out.decoder.max_position_embeddings, 1e6)};
  if (config.number("router_jitter_noise", 0.0, 0.0, 1.0) != 0.0) {
    config.fail("router_jitter_noise", "noise before the router is not implemented", "set it to 0");
  }
  out.experts = {.block = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2"};
  read_routing(config, {8, 2, 0.001}, out.experts);
  out.experts.intermediate_size = out.decoder.intermediate_size;
  out.experts.activation = out.decoder.activation;
  out.experts.normalizes = out.experts.wide_weights = true;
  out.has_experts.assign(out.decoder.blocks.size(), true);
  return out;
}

MoeConfig read_qwen3_moe_config(const ConfigReader& config) {
  MoeConfig out;
  out.decoder = read_decoder_config(config, {.sizes = {151936, 2048, 6144, 24, 32},
                                             .num_key_value_heads = 4,
                                             .max_position_embeddings = 32768});
  out.decoder.qkv_bias = out.decoder.output_bias = config.flag("attention_bias", false);
  out.decoder.head_norms = HeadNorms::kEach;
  if (config.flag("use_sliding_window", false)) {
    const std::int64_t window = read_window(config, 4096).value_or(0);
    for (BlockConfig& block : out.decoder.blocks) block.window = window;
  }
  out.decoder.ropes = {read_rope(config, out.decoder.max_position_embeddings)};
  read_routing(config, {128, 8, 0.001}, out.experts);
  out.experts.intermediate_size = config.size("moe_intermediate_size", 768);
  out.experts.activation = out.decoder.activation;
  out.experts.normalizes = config.flag("norm_topk_prob", false);

  const std::int64_t step = config.size("decoder_sparse_step", 1);
  const std::vector<std::int64_t> dense = config.sizes("mlp_only_layers", 0, kMaxLayers);
  for (std::int64_t i = 0; i < out.decoder.num_layers; ++i) {
    const bool listed = std::find(dense.begin(), dense.end(), i) != dense.end();
    out.has_experts.push_back(!listed && (i + 1) % step == 0);
  }
  return out;
}

MoeConfig read_olmoe_config(const ConfigReader& config) {
  MoeConfig out;
  out.decoder = read_decoder_config(config, {.sizes = {50304, 2048, 2048, 16, 16},
                                             .heads_divide_hidden_size = true,
                                             .max_position_embeddings = 4096,
                                             .default_norm_eps = 1e-5,
                                             .pad_token_id = 1});
  if (out.decoder.head_dim * out.decoder.num_attention_heads != out.decoder.hidden_size) {
    config.fail("head_dim", "it is not hidden_size / num_attention_heads",
                "the norms of queries and keys are as wide as the hidden size: leave it out");
  }
  out.decoder.qkv_bias = out.decoder.output_bias = config.flag("attention_bias", false);
  out.decoder.head_norms = HeadNorms::kTogether;
  if (config.has("clip_qkv")) {
    config.fail("clip_qkv", "clipping queries, keys and values is not implemented",
                "use a model that has null there");
  }
  out.decoder.ropes = {read_rope(config, out.decoder.max_position_embeddings)};
  read_routing(config, {64, 8, 0.01}, out.experts);
  out.experts.intermediate_size = out.decoder.intermediate_size;
  out.experts.activation = out.decoder.activation;
  out.experts.normalizes = config.flag("norm_topk_prob", false);
  out.has_experts.assign(out.decoder.blocks.size(), true);
  return out;
}

ModelSpec moe_model(const MoeConfig& config, const Precision& precision) {
  const DecoderConfig& decoder = config.decoder;
  // Limits memory, because every expert's weight has a description.
  const double per_block = 3.0 * static_cast<double>(config.experts.num_experts);
  constexpr double kMaxNames = 1e6;
  if (per_block * config.num_sparse() > kMaxNames) {
    throw Error(ErrorKind::kInput, {.what = "the model has more than 1e6 weights of experts",
                                    .where = "num_experts, num_hidden_layers",
                                    .remedy = "check both"});
  }
  return decoder_model(decoder, precision, &config);
}

}  // namespace sluice::detail
