// Gated MLP: Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202.
#include "family/decoder_model.h"

#include <map>
#include <memory>
#include <utility>

#include "family/decoder.h"

namespace sluice::detail {
namespace {

struct NormNames {
  std::string before_attention, behind_attention, before_feed_forward, behind_feed_forward;

  explicit NormNames(NormPlaces places) {
    if (places != NormPlaces::kBehind) before_attention = "input_layernorm";
    if (places == NormPlaces::kBefore) before_feed_forward = "post_attention_layernorm";
    if (places != NormPlaces::kBefore) {
      behind_attention = "post_attention_layernorm";
      behind_feed_forward = "post_feedforward_layernorm";
    }
    if (places == NormPlaces::kBoth) before_feed_forward = "pre_feedforward_layernorm";
  }
  std::vector<std::string> all() const {
    std::vector<std::string> names;
    for (const std::string& name :
         {before_attention, behind_attention, before_feed_forward, behind_feed_forward})
      if (!name.empty()) names.push_back(name);
    return names;
  }
};

AttentionSizes attention_of(const DecoderConfig& c, const BlockConfig& block) {
  const NormNames norms(c.norm_places);
  AttentionSizes sizes{.norm_before = norms.before_attention,
                       .norm_behind = norms.behind_attention,
                       .output = "self_attn.o_proj",
                       .norm = c.norm,
                       .hidden = c.hidden_size,
                       .heads = c.num_attention_heads,
                       .head_dim = c.head_dim,
                       .query_width = c.query_width(),
                       .key_width = c.key_value_width(),
                       .rotary_dim = block.rope >= 0 ? c.rotary_dim : 0,
                       .wide_rotary = c.wide_rope,
                       .norms_heads = c.head_norms == HeadNorms::kEach,
                       .capped = c.attention_cap.has_value(),
                       .dropout = c.attention_dropout,
                       .residual_dropout = c.residual_dropout,
                       .fused = fuses_attention(c)};
  sizes.projections = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  if (c.fused_qkv) sizes.projections = {"self_attn.qkv_proj"};
  if (c.head_norms != HeadNorms::kNone) {
    sizes.query_norm = "self_attn.q_norm";
    sizes.key_norm = "self_attn.k_norm";
  }
  return sizes;
}

FeedForwardSizes feed_forward_of(const DecoderConfig& c) {
  const NormNames norms(c.norm_places);
  FeedForwardSizes sizes{.norm_before = norms.before_feed_forward,
                         .norm_behind = norms.behind_feed_forward,
                         .projections = {"mlp.gate_proj", "mlp.up_proj"},
                         .last = "mlp.down_proj",
                         .norm = c.norm,
                         .activation = c.activation,
                         .hidden = c.hidden_size,
                         .inner = c.intermediate_size,
                         .gated = !c.plain_mlp,
                         .residual_dropout = c.residual_dropout,
                         .fused = fuses_feed_forward(c)};
  if (c.fused_gate_up) sizes.projections = {"mlp.gate_up_proj"};
  if (c.plain_mlp) {
    sizes.projections = {"mlp.c_fc"};
    sizes.last = "mlp.c_proj";
  }
  return sizes;
}

void name_attention(const DecoderConfig& c, OperatorList& operators) {
  const std::int64_t d = c.hidden_size, q = c.query_width(), k = c.key_value_width();
  if (c.fused_qkv) {
    operators.matrix("self_attn.o_proj", d, q, c.output_bias);
    operators.matrix("self_attn.qkv_proj", q + 2 * k, d, c.qkv_bias);
  } else {
    operators.matrix("self_attn.q_proj", q, d, c.qkv_bias);
    operators.matrix("self_attn.k_proj", k, d, c.qkv_bias);
    operators.matrix("self_attn.v_proj", k, d, c.qkv_bias);
    operators.matrix("self_attn.o_proj", d, q, c.output_bias);
  }
  const std::int64_t heads = c.num_key_value_heads;
  operators.divide_outputs("self_attn.qkv_proj", heads, {q, k, k});
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"})
    operators.divide_outputs(name, heads);
  operators.divide_inputs("self_attn.o_proj", heads);
  if (c.head_norms == HeadNorms::kNone) return;
  const bool each = c.head_norms == HeadNorms::kEach, bias = c.norm == NormKind::kLayer;
  operators.vector("self_attn.q_norm", each ? c.head_dim : q, bias);
  operators.vector("self_attn.k_norm", each ? c.head_dim : k, bias);
}

void name_feed_forward(const DecoderConfig& c, OperatorList& operators) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size;
  if (c.plain_mlp) {
    operators.matrix("mlp.c_fc", f, d, c.mlp_bias);
    operators.matrix("mlp.c_proj", d, f, c.mlp_bias);
    operators.divide_outputs("mlp.c_fc");
    operators.divide_inputs("mlp.c_proj");
    return;
  }
  if (c.fused_gate_up) {
    operators.matrix("mlp.gate_up_proj", 2 * f, d, c.mlp_bias);
  } else {
    operators.matrix("mlp.gate_proj", f, d, c.mlp_bias);
    operators.matrix("mlp.up_proj", f, d, c.mlp_bias);
  }
  operators.matrix("mlp.down_proj", d, f, c.mlp_bias);
  operators.divide_outputs("mlp.gate_up_proj", 0, {f, f});
  for (const char* name : {"mlp.gate_proj", "mlp.up_proj"}) operators.divide_outputs(name);
  operators.divide_inputs("mlp.down_proj");
}

OperatorList block_operators(const DecoderConfig& c, const BlockConfig& block,
                             const ExpertsConfig* experts, const Precision& precision) {
  OperatorList operators(precision);
  name_attention(c, operators);
  if (experts)
    name_experts(*experts, c.hidden_size, operators);
  else
    name_feed_forward(c, operators);
  const NormNames norms(c.norm_places);
  for (const std::string& norm : norms.all())
    operators.vector(norm, c.hidden_size, c.norm == NormKind::kLayer);
  operators.attention(attention_of(c, block));
  if (experts)
    operators.experts(sizes_of(*experts, c.hidden_size), norms.before_feed_forward,
                      norms.behind_feed_forward, c.norm);
  else
    operators.feed_forward(feed_forward_of(c));
  return operators;
}

class Blocks {
 public:
  Blocks(const DecoderConfig& config, const Precision& precision, const BlockExperts* experts)
      : config_(config), precision_(precision), experts_(experts) {}

  LayerInfo make(std::int64_t index) {
    const BlockConfig& block = config_.blocks.at(static_cast<std::size_t>(index));
    const bool has_experts = experts_ && experts_->has_experts.at(static_cast<std::size_t>(index));
    const ExpertsConfig* const experts = has_experts ? &experts_->experts : nullptr;
    LayerInfo layer = hidden_layer("model.layers." + std::to_string(index), LayerRole::kBlock,
                                   config_.hidden_size);
    const auto kind = std::make_pair(block.rope >= 0, has_experts);
    auto found = of_kind_.find(kind);
    if (found == of_kind_.end()) {
      found = of_kind_.emplace(kind, block_operators(config_, block, experts, precision_)).first;
    }
    found->second.give(layer);
    if (config_.head_norms == HeadNorms::kTogether)
      layer.undivided = "it norms queries and keys over all heads";
    if (experts && experts->balance_coefficient)
      layer.writes.push_back({balance_value(std::to_string(index)), {}});
    const bool is_written = !precision_.fuses() || !fuses_attention(config_);
    if (is_written && (block.window > 0 || config_.attention_cap)) {
      layer.mask = {.window = block.window,
                    .always = config_.attention_cap.has_value(),
                    .bytes_of_score = static_cast<double>(precision_.product_bytes())};
    }
    return layer;
  }

 private:
  const DecoderConfig& config_;
  const Precision& precision_;
  const BlockExperts* experts_;
  std::map<std::pair<bool, bool>, OperatorList> of_kind_;
};

}  // namespace

bool fuses_attention(const DecoderConfig& config) {
  const bool norms_fit = config.head_norms == HeadNorms::kNone || config.norm != NormKind::kLayer;
  const bool scale_fits = config.residual_scale == 1.0 || !config.output_bias;
  return config.head_dim % ops::kFusedHeadMultiple == 0 && config.attention_dropout == 0 &&
         config.residual_dropout == 0 && norms_fit && scale_fits;
}

bool fuses_feed_forward(const DecoderConfig& config) {
  return config.residual_dropout == 0 && (config.residual_scale == 1.0 || !config.mlp_bias);
}

ModelSpec decoder_model(const DecoderConfig& config, const Precision& precision,
                        const BlockExperts* experts) {
  const std::int64_t d = config.hidden_size;
  ModelSpec model;
  model.inputs = decoder_inputs();
  model.vocab_size = config.vocab_size;
  model.usual_positions = config.max_position_embeddings;
  model.layers.reserve(static_cast<std::size_t>(config.num_layers) + 3);
  model.layers.push_back(embedding_layer("model.embed_tokens", config.vocab_size, d, precision,
                                         config.embedding_dropout, config.embedding_scale != 1.0));
  Blocks blocks(config, precision, experts);
  for (std::int64_t i = 0; i < config.num_layers; ++i) model.layers.push_back(blocks.make(i));
  model.layers.push_back(norm_layer("model.norm", config.norm, d, precision));
  model.layers.push_back(head_layer("lm_head", config.vocab_size, d,
                                    config.tie_word_embeddings ? "model.embed_tokens.weight" : "",
                                    precision, config.logit_cap.has_value()));
  return model;
}

}  // namespace sluice::detail
