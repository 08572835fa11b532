// Describes model families that sluice can plan but not train. The parameters and their sizes
// follow the classes of transformers. Keys that change no size, such as a rotary base, are not
// read.
#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "family/decoder.h"
#include "family/planned.h"
#include "plan/partition/layout_text.h"

namespace sluice::detail {
namespace {

std::int64_t needed(const ConfigReader& config, const std::string& key,
                    std::int64_t max = kMaxDimension) {
  if (!config.has(key)) config.fail_missing(key, "add it, because the model's sizes depend on it");
  return config.size(key, 1, max);
}

std::int64_t count_from_0(const ConfigReader& config, const std::string& key,
                          std::int64_t fallback) {
  return static_cast<std::int64_t>(
      config.number(key, static_cast<double>(fallback), 0, kMaxLayers));
}

struct Sizes {
  std::int64_t hidden, layers, heads, key_heads, head_dim;
};

Sizes sizes_of_model(const ConfigReader& config) {
  Sizes sizes = {};
  sizes.hidden = needed(config, "hidden_size");
  sizes.layers = needed(config, "num_hidden_layers", kMaxLayers);
  sizes.heads = needed(config, "num_attention_heads");
  sizes.key_heads = config.size("num_key_value_heads", sizes.heads);
  sizes.head_dim = config.size("head_dim", std::max<std::int64_t>(1, sizes.hidden / sizes.heads));
  return sizes;
}

std::string block_name(std::int64_t index) { return formatted("model.layers.{}", index); }

ModelSpec whole_model(const ConfigReader& config, const Sizes& sizes, std::vector<LayerInfo> blocks,
                      const Precision& precision) {
  ModelSpec model;
  model.inputs = decoder_inputs();
  model.vocab_size = needed(config, "vocab_size");
  if (config.has("max_position_embeddings"))
    model.usual_positions = config.size("max_position_embeddings", 1);
  model.layers.push_back(
      embedding_layer("model.embed_tokens", model.vocab_size, sizes.hidden, precision));
  for (LayerInfo& block : blocks) model.layers.push_back(std::move(block));
  model.layers.push_back(norm_layer("model.norm", NormKind::kRms, sizes.hidden, precision));
  const bool tied = config.flag("tie_word_embeddings", false);
  model.layers.push_back(head_layer("lm_head", model.vocab_size, sizes.hidden,
                                    tied ? "model.embed_tokens.weight" : "", precision));
  return model;
}

// Queries, keys and values in one head size, with norms of each head or biases.
struct GroupedAttention {
  bool bias = false, output_bias = false, head_norms = false;
  std::int64_t query_factor = 1;  // 2: the queries' product also makes a gate
  std::int64_t window = 0;
};

void add_attention(PlannedLayer& layer, const Sizes& sizes, const GroupedAttention& how) {
  const std::int64_t query = sizes.heads * sizes.head_dim, key = sizes.key_heads * sizes.head_dim;
  layer.vector("input_layernorm.weight", sizes.hidden);
  layer.matrix("self_attn.q_proj", how.query_factor * query, sizes.hidden);
  layer.matrix("self_attn.k_proj", key, sizes.hidden);
  layer.matrix("self_attn.v_proj", key, sizes.hidden);
  layer.matrix("self_attn.o_proj", sizes.hidden, query);
  if (how.bias) {
    layer.vector("self_attn.q_proj.bias", query);
    layer.vector("self_attn.k_proj.bias", key);
    layer.vector("self_attn.v_proj.bias", key);
  }
  if (how.output_bias) layer.vector("self_attn.o_proj.bias", sizes.hidden);
  if (how.head_norms) {
    layer.vector("self_attn.q_norm.weight", sizes.head_dim);
    layer.vector("self_attn.k_norm.weight", sizes.head_dim);
  }
  layer.attention(query, query, how.window, 2 * query + 2 * key);
}

void add_gated(PlannedLayer& layer, const std::string& name, std::int64_t hidden,
               std::int64_t inner) {
  layer.matrix(name + ".gate_proj", inner, hidden);
  layer.matrix(name + ".up_proj", inner, hidden);
  layer.matrix(name + ".down_proj", hidden, inner);
  layer.keeps(2 * static_cast<double>(inner));
}

struct Experts {
  std::int64_t count = 0, used = 0, inner = 0, shared_inner = 0;
  bool router_bias = false, biases = false;
};

void add_experts(PlannedLayer& layer, std::int64_t hidden, const Experts& experts) {
  layer.matrix("mlp.gate", experts.count, hidden);
  if (experts.router_bias) layer.vector("mlp.gate.bias", experts.count);
  layer.experts("mlp.experts.gate_up_proj", experts.count, experts.used, 2 * experts.inner, hidden);
  layer.experts("mlp.experts.down_proj", experts.count, experts.used, hidden, experts.inner);
  if (experts.biases) {
    layer.vector("mlp.experts.gate_up_proj_bias", experts.count * 2 * experts.inner);
    layer.vector("mlp.experts.down_proj_bias", experts.count * hidden);
  }
  layer.keeps(static_cast<double>(experts.used) * 2 * static_cast<double>(experts.inner));
  if (experts.shared_inner > 0)
    add_gated(layer, "mlp.shared_experts", hidden, experts.shared_inner);
}

Experts routed_experts(const ConfigReader& config, const std::vector<std::string>& count) {
  Experts experts;
  experts.count = config.size_of(count, 1);
  experts.used = needed(config, "num_experts_per_tok");
  if (experts.used > experts.count) {
    config.fail(
        "num_experts_per_tok",
        formatted("a token goes to {} experts, but there are only {}", experts.used, experts.count),
        "write at most their number");
  }
  return experts;
}

// Multi-head latent attention: queries, keys and values come from short latent vectors.
void add_latent_attention(PlannedLayer& layer, const ConfigReader& config, const Sizes& sizes) {
  const std::int64_t rope = needed(config, "qk_rope_head_dim"),
                     plain = needed(config, "qk_nope_head_dim"),
                     value = needed(config, "v_head_dim"), latent = needed(config, "kv_lora_rank");
  const std::int64_t query = sizes.heads * (plain + rope), values = sizes.heads * value;
  layer.vector("input_layernorm.weight", sizes.hidden);
  if (config.has("q_lora_rank")) {
    const std::int64_t rank = config.size("q_lora_rank", 1);
    layer.matrix("self_attn.q_a_proj", rank, sizes.hidden);
    layer.vector("self_attn.q_a_layernorm.weight", rank);
    layer.matrix("self_attn.q_b_proj", query, rank);
  } else {
    layer.matrix("self_attn.q_proj", query, sizes.hidden);
  }
  layer.matrix("self_attn.kv_a_proj_with_mqa", latent + rope, sizes.hidden);
  layer.vector("self_attn.kv_a_layernorm.weight", latent);
  layer.matrix("self_attn.kv_b_proj", sizes.heads * (plain + value), latent);
  layer.matrix("self_attn.o_proj", sizes.hidden, values);
  layer.attention(query, values, 0, 2 * query + 2 * values);
}

// Predicts one more token: joins the hidden state with the next token's embedding, runs a block,
// and computes logits with the shared head.
LayerInfo mtp_layer(PlannedLayer layer, const ConfigReader& config, const Sizes& sizes) {
  layer.vector("enorm.weight", sizes.hidden);
  layer.vector("hnorm.weight", sizes.hidden);
  layer.vector("shared_head.norm.weight", sizes.hidden);
  layer.matrix("eh_proj", sizes.hidden, 2 * sizes.hidden);
  layer.shares(needed(config, "vocab_size"), sizes.hidden);
  LayerInfo info = layer.layer(LayerRole::kOther);
  info.class_name = kMtpClass;
  return info;
}

// Dense blocks first, then blocks with routed and shared experts, then MTP layers.
template <typename AddAttention>
ModelSpec dense_then_experts(const ConfigReader& config, const Precision& precision,
                             const AddAttention& add_attention_of) {
  const Sizes sizes = sizes_of_model(config);
  Experts experts = routed_experts(config, {"n_routed_experts"});
  experts.inner = needed(config, "moe_intermediate_size");
  experts.shared_inner = experts.inner * count_from_0(config, "n_shared_experts", 1);
  experts.router_bias = true;
  const std::int64_t dense = count_from_0(config, "first_k_dense_replace", 0);
  const std::int64_t further = count_from_0(config, "num_nextn_predict_layers", 0);
  std::vector<LayerInfo> blocks;
  for (std::int64_t i = 0; i < sizes.layers + further; ++i) {
    PlannedLayer layer(block_name(i), sizes.hidden, precision);
    add_attention_of(layer, sizes);
    layer.vector("post_attention_layernorm.weight", sizes.hidden);
    if (i < dense)
      add_gated(layer, "mlp", sizes.hidden, needed(config, "intermediate_size"));
    else
      add_experts(layer, sizes.hidden, experts);
    blocks.push_back(i < sizes.layers ? layer.layer() : mtp_layer(layer, config, sizes));
  }
  return whole_model(config, sizes, std::move(blocks), precision);
}

// Whether each block has the type, by layer_types or a rule where the field is absent.
template <typename Rule>
std::vector<bool> blocks_of_type(const ConfigReader& config, std::int64_t num_layers,
                                 const std::string& type, const Rule& rule) {
  const std::vector<std::string> types = config.texts("layer_types");
  if (!types.empty() && std::ssize(types) != num_layers) {
    config.fail("layer_types",
                formatted("has {} types for {}", types.size(), counted(num_layers, "layer")),
                "give one type for each layer");
  }
  std::vector<bool> result;
  for (std::int64_t i = 0; i < num_layers; ++i)
    result.push_back(types.empty() ? rule(i) : types[static_cast<std::size_t>(i)] == type);
  return result;
}

// Attention with a state of fixed size: products of keys and values, updated token by token.
void add_linear_attention(PlannedLayer& layer, const ConfigReader& config, std::int64_t hidden) {
  const std::int64_t key_heads = needed(config, "linear_num_key_heads"),
                     value_heads = needed(config, "linear_num_value_heads"),
                     key_dim = needed(config, "linear_key_head_dim"),
                     value_dim = needed(config, "linear_value_head_dim"),
                     kernel = config.size("linear_conv_kernel_dim", 4);
  const std::int64_t keys = key_heads * key_dim, values = value_heads * value_dim;
  layer.vector("input_layernorm.weight", hidden);
  layer.matrix("linear_attn.in_proj_qkvz", 2 * keys + 2 * values, hidden);
  layer.matrix("linear_attn.in_proj_ba", 2 * value_heads, hidden);
  layer.vector("linear_attn.conv1d.weight", (2 * keys + values) * kernel);
  layer.vector("linear_attn.dt_bias", value_heads);
  layer.vector("linear_attn.A_log", value_heads);
  layer.vector("linear_attn.norm.weight", value_dim);
  layer.matrix("linear_attn.out_proj", hidden, values);
  // Reading and updating a state of [key_dim, value_dim] for each head is like a window.
  layer.attention(values, values, key_dim, 2 * (2 * keys + 2 * values));
}

}  // namespace

ModelSpec read_deepseek_v3(const ConfigReader& config, const Precision& precision) {
  return dense_then_experts(config, precision, [&](PlannedLayer& layer, const Sizes& sizes) {
    add_latent_attention(layer, config, sizes);
  });
}

ModelSpec read_glm4_moe(const ConfigReader& config, const Precision& precision) {
  const GroupedAttention how = {.bias = config.flag("attention_bias", false),
                                .head_norms = config.flag("use_qk_norm", false)};
  return dense_then_experts(config, precision, [&](PlannedLayer& layer, const Sizes& sizes) {
    add_attention(layer, sizes, how);
  });
}

ModelSpec read_gpt_oss(const ConfigReader& config, const Precision& precision) {
  const Sizes sizes = sizes_of_model(config);
  Experts experts = routed_experts(config, {"num_local_experts"});
  experts.inner = needed(config, "intermediate_size");
  experts.router_bias = experts.biases = true;
  const std::int64_t window = config.size("sliding_window", 128);
  const std::vector<bool> slides = blocks_of_type(config, sizes.layers, "sliding_attention",
                                                  [](std::int64_t i) { return i % 2 == 0; });
  const bool bias = config.flag("attention_bias", true);
  std::vector<LayerInfo> blocks;
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    PlannedLayer layer(block_name(i), sizes.hidden, precision);
    add_attention(layer, sizes,
                  {.bias = bias,
                   .output_bias = bias,
                   .window = slides[static_cast<std::size_t>(i)] ? window : 0});
    layer.vector("self_attn.sinks", sizes.heads);
    layer.vector("post_attention_layernorm.weight", sizes.hidden);
    add_experts(layer, sizes.hidden, experts);
    blocks.push_back(layer.layer());
  }
  return whole_model(config, sizes, std::move(blocks), precision);
}

ModelSpec read_llama4(const ConfigReader& config, const Precision& precision) {
  const Sizes sizes = sizes_of_model(config);
  Experts experts = routed_experts(config, {"num_local_experts"});
  experts.inner = experts.shared_inner = needed(config, "intermediate_size");
  const std::int64_t step = config.size("interleave_moe_layer_step", 1);
  const std::int64_t chunk = config.size("attention_chunk_size", 8192);
  std::vector<std::int64_t> listed = config.sizes("moe_layers", 0, kMaxLayers);
  const std::vector<bool> chunked = blocks_of_type(config, sizes.layers, "chunked_attention",
                                                   [](std::int64_t i) { return (i + 1) % 4 != 0; });
  std::vector<LayerInfo> blocks;
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    PlannedLayer layer(block_name(i), sizes.hidden, precision);
    add_attention(layer, sizes, {.window = chunked[static_cast<std::size_t>(i)] ? chunk : 0});
    layer.vector("post_attention_layernorm.weight", sizes.hidden);
    const bool has_experts =
        listed.empty() ? (i + 1) % step == 0 : std::ranges::find(listed, i) != listed.end();
    if (has_experts)
      add_experts(layer, sizes.hidden, experts);
    else
      add_gated(layer, "feed_forward", sizes.hidden, needed(config, "intermediate_size_mlp"));
    blocks.push_back(layer.layer());
  }
  return whole_model(config, sizes, std::move(blocks), precision);
}

ModelSpec read_qwen3_next(const ConfigReader& config, const Precision& precision) {
  const Sizes sizes = sizes_of_model(config);
  Experts experts = routed_experts(config, {"num_experts"});
  experts.inner = needed(config, "moe_intermediate_size");
  experts.shared_inner = needed(config, "shared_expert_intermediate_size");
  const std::int64_t step = config.size("decoder_sparse_step", 1);
  const std::int64_t interval = config.size("full_attention_interval", 4);
  const std::vector<std::int64_t> dense = config.sizes("mlp_only_layers", 0, kMaxLayers);
  const std::vector<bool> linear =
      blocks_of_type(config, sizes.layers, "linear_attention",
                     [&](std::int64_t i) { return (i + 1) % interval != 0; });
  std::vector<LayerInfo> blocks;
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    PlannedLayer layer(block_name(i), sizes.hidden, precision);
    if (linear[static_cast<std::size_t>(i)])
      add_linear_attention(layer, config, sizes.hidden);
    else
      add_attention(layer, sizes, {.head_norms = true, .query_factor = 2});
    layer.vector("post_attention_layernorm.weight", sizes.hidden);
    if (std::ranges::find(dense, i) == dense.end() && (i + 1) % step == 0) {
      add_experts(layer, sizes.hidden, experts);
      layer.matrix("mlp.shared_expert_gate", 1, sizes.hidden);
    } else {
      add_gated(layer, "mlp", sizes.hidden, needed(config, "intermediate_size"));
    }
    blocks.push_back(layer.layer());
  }
  return whole_model(config, sizes, std::move(blocks), precision);
}

const std::vector<PlannedFamily>& planned_families() {
  static const std::vector<PlannedFamily> table = {
      {"deepseek_v3", read_deepseek_v3}, {"kimi_k2", read_deepseek_v3},
      {"gpt_oss", read_gpt_oss},         {"glm4_moe", read_glm4_moe},
      {"llama4_text", read_llama4},      {"qwen3_next", read_qwen3_next}};
  return table;
}

}  // namespace sluice::detail
