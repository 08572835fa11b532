// Elements: D hidden size, F inner size, Q and K widths of all query and key heads, H query heads,
// E channels of a head.
#include "plan/families/decoder_model.h"

#include <algorithm>
#include <map>

#include "plan/families/decoder.h"
#include "plan/families/fused.h"

namespace sluice::detail {
namespace {

using Shape = std::vector<std::int64_t>;

void add_linear(BlockPart& part, const std::string& name, std::int64_t out, std::int64_t in,
                bool bias) {
  part.parameters.emplace_back(name + ".weight", Shape{out, in});
  if (bias) part.parameters.emplace_back(name + ".bias", Shape{out});
}

void add_norm(BlockPart& part, const DecoderConfig& c, const std::string& name,
              std::int64_t width) {
  part.parameters.emplace_back(name + ".weight", Shape{width});
  if (c.norm == NormKind::kLayer) part.parameters.emplace_back(name + ".bias", Shape{width});
}

// Bytes that a norm keeps of `width` numbers in `groups`; no normalized x where it is frozen.
struct NormBytes {
  double per_token = 0, frozen_per_token = 0, constant = 0;
};
NormBytes norm_bytes(NormKind kind, std::int64_t width, std::int64_t groups, double narrow,
                     const NumberBytes& bytes) {
  if (bytes.fuses()) {  // x and its statistics
    const double kept = NumberBytes::wide(width + 2 * groups);
    return {kept, kept, 0};
  }
  const double wide = NumberBytes::wide(width + groups);
  const double again = NumberBytes::wide(width);
  switch (kind) {
    case NormKind::kRms:  // x in float32, one inverse root; normalized
      return {wide + narrow, wide, 0};
    case NormKind::kWideRms:
      return {wide + again, wide, 0};
    case NormKind::kRmsPlusOne:  // and 1 + the weight
      return {wide + again, wide, NumberBytes::wide(width / groups)};
    case NormKind::kLayer:  // x, mean, inverse root: the normalized x is computed again
      break;
  }
  return {narrow + NumberBytes::wide(2 * groups), narrow + NumberBytes::wide(2 * groups), 0};
}

// Cost of `weights` numbers in matrices.
LayerCost matrices(double weights, const NumberBytes& bytes) {
  LayerCost cost;
  cost.forward_flops.per_token = cost.input_flops.per_token = cost.weight_flops.per_token =
      2 * weights;
  cost.casted_weights = bytes.casted_weights(weights);
  return cost;
}

// Norms of queries and keys, of the results of their projections.
void add_head_norms(BlockPart& part, const DecoderConfig& c, const NumberBytes& bytes) {
  if (c.head_norms == HeadNorms::kNone) return;
  const bool each = c.head_norms == HeadNorms::kEach;
  const auto add = [&](const std::string& name, std::int64_t width, std::int64_t heads) {
    add_norm(part, c, name, each ? c.head_dim : width);
    const NormBytes norm = norm_bytes(c.norm, width, each ? heads : 1, bytes.product(width), bytes);
    part.cost.after_forward.per_token += norm.per_token;
    part.cost.after_forward.constant += norm.constant;
    part.cost.after_input.per_token += bytes.product(2 * width);
    part.frozen_cost.after_forward.per_token += norm.frozen_per_token;
    part.frozen_cost.after_forward.constant += norm.constant;
  };
  add("self_attn.q_norm", c.query_width(), c.num_attention_heads);
  add("self_attn.k_norm", c.key_value_width(), c.num_key_value_heads);
}

// Bytes that the products of queries, keys and values keep.
void add_scores(BlockPart& part, const DecoderConfig& c, const BlockConfig& block,
                const NumberBytes& bytes) {
  const std::int64_t h = c.num_attention_heads, q = c.query_width(), k = c.key_value_width();
  ShapePolynomial &kept = part.cost.after_forward, &frozen = part.frozen_cost.after_forward;
  if (c.attention_cap) {
    // Queries; keys and values of every query head; the result by rows. Of every pair the
    // hyperbolic tangent and the probability, which is there in float32 too.
    kept.per_token += bytes.product(4 * q);
    frozen.per_token += bytes.product(3 * q);
    double per_pair = bytes.product(h) + NumberBytes::wide(h) + bytes.casted_table(h);
    if (c.attention_dropout > 0) per_pair += bytes.product(2 * h);
    kept.per_pair += per_pair;
    frozen.per_pair += per_pair;
    part.cost.in_forward.per_pair = part.frozen_cost.in_forward.per_pair =
        bytes.product(h) + NumberBytes::wide(h);
    // Two more of every pair, when what the feed-forward kept is gone: that is as much in sequences
    // of usual length, so that a quarter of them is left.
    part.cost.on_entry.per_pair = part.frozen_cost.on_entry.per_pair = bytes.product(h) / 2;
    return;
  }
  // q, k, v, the result of attention and its copy by rows, one log-sum a head. Where queries are
  // not turned they are views of rows, and so is the result.
  const bool copies = block.rope >= 0 || c.attention_dropout > 0;
  kept.per_token += bytes.product((copies ? 3 : 2) * q + 2 * k) + NumberBytes::wide(h);
  frozen.per_token += bytes.product(2 * q + 2 * k) + NumberBytes::wide(h);
  // With dropout the probabilities of attention are made: before and after it, and its mask; and
  // every query head gets keys and values of its own.
  if (c.attention_dropout > 0) {
    const double more = bytes.product(2 * (q - k) - q) - NumberBytes::wide(h);
    kept.per_token += more;
    kept.per_pair += bytes.product(3 * h);
    frozen.per_token += more;
    frozen.per_pair += bytes.product(3 * h);
  }
}

BlockPart attention(const DecoderConfig& c, const BlockConfig& block, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size, q = c.query_width(), k = c.key_value_width();
  BlockPart part;
  if (c.fused_qkv) {
    add_linear(part, "self_attn.o_proj", d, q, c.output_bias);
    add_linear(part, "self_attn.qkv_proj", q + 2 * k, d, c.qkv_bias);
  } else {
    add_linear(part, "self_attn.q_proj", q, d, c.qkv_bias);
    add_linear(part, "self_attn.k_proj", k, d, c.qkv_bias);
    add_linear(part, "self_attn.v_proj", k, d, c.qkv_bias);
    add_linear(part, "self_attn.o_proj", d, q, c.output_bias);
  }
  part.cost = matrices(static_cast<double>(2 * d) * static_cast<double>(q + k), bytes);
  part.cost.forward_flops.per_pair = static_cast<double>(4 * q);
  part.cost.input_flops.per_pair = static_cast<double>(8 * q);
  const int queries = 4 + (c.head_norms == HeadNorms::kEach) - (block.rope < 0);
  part.cost.in_forward.per_token = bytes.product(2 * d + queries * q + 3 * k);
  part.frozen_cost = part.cost;
  // Its input; sines and cosines in another type count as if every row had its own.
  const double table = block.rope >= 0 && !c.wide_rope ? bytes.casted_table(2 * c.rotary_dim) : 0.0;
  const int readers = c.fused_qkv ? 1 : 3;
  part.cost.after_forward.per_token = bytes.operand(d, readers) + table;
  part.frozen_cost.after_forward.per_token = table;
  if (c.fused_qkv) {  // values are a view of the result of all three
    part.cost.after_forward.per_token += bytes.product(q + k);
    part.frozen_cost.after_forward.per_token += bytes.product(q + k);
  }
  // The input of every matrix and the gradient of its output.
  part.cost.after_input.per_token = bytes.operand(d, readers) + bytes.product(d + 2 * q + 2 * k);
  add_scores(part, c, block, bytes);
  add_head_norms(part, c, bytes);
  part.fuses = bytes.fuses() && fuses_attention(c);
  return part;
}

void append_parts(LayerInfo& layer, const std::vector<BlockPart>& parts) {
  for (const BlockPart& part : parts) {
    for (const auto& [name, shape] : part.parameters)
      layer.parameters.push_back({layer.name + "." + name, shape, {}});
  }
}

FusedAttention fused_attention(const DecoderConfig& c) {
  std::int64_t groups = 0;
  if (c.head_norms == HeadNorms::kTogether) groups = 2;
  if (c.head_norms == HeadNorms::kEach) groups = c.num_attention_heads + c.num_key_value_heads;
  return {.hidden = c.hidden_size,
          .heads = c.num_attention_heads,
          .head_dim = c.head_dim,
          .query_width = c.query_width(),
          .key_width = c.key_value_width(),
          .norm_before = c.norm_places != NormPlaces::kBehind,
          .norm_behind = c.norm_places != NormPlaces::kBefore,
          .head_norm_groups = groups};
}

FusedFeedForward fused_feed_forward(const DecoderConfig& c) {
  return {.hidden = c.hidden_size,
          .inner = c.intermediate_size,
          .norm_before = c.norm_places != NormPlaces::kBehind,
          .norm_behind = c.norm_places != NormPlaces::kBefore};
}

// num_plain: halves whose norms are operators of their own.
BlockPart block_norms(const DecoderConfig& c, const NumberBytes& bytes, int num_plain) {
  const std::int64_t d = c.hidden_size;
  BlockPart part;
  switch (c.norm_places) {
    case NormPlaces::kBefore:
      add_norm(part, c, "input_layernorm", d);
      add_norm(part, c, "post_attention_layernorm", d);
      break;
    case NormPlaces::kBehind:
      add_norm(part, c, "post_attention_layernorm", d);
      add_norm(part, c, "post_feedforward_layernorm", d);
      break;
    case NormPlaces::kBoth:
      add_norm(part, c, "input_layernorm", d);
      add_norm(part, c, "post_attention_layernorm", d);
      add_norm(part, c, "pre_feedforward_layernorm", d);
      add_norm(part, c, "post_feedforward_layernorm", d);
      break;
  }
  const int count = num_plain * (c.norm_places == NormPlaces::kBoth ? 2 : 1);
  const NormBytes norm = norm_bytes(c.norm, d, 1, bytes.stored(d), bytes);
  part.cost.after_forward = {.constant = count * norm.constant,
                             .per_token = count * norm.per_token};
  part.cost.after_input.per_token = count * bytes.stored(2 * d);
  part.frozen_cost.after_forward = {.constant = count * norm.constant,
                                    .per_token = count * norm.frozen_per_token};
  return part;
}

LayerInfo norm_layer(const DecoderConfig& c, const NumberBytes& bytes) {
  const std::int64_t d = c.hidden_size;
  LayerInfo layer = hidden_layer("model.norm", LayerRole::kNorm, d);
  BlockPart part;
  add_norm(part, c, "norm", d);
  for (const auto& [name, shape] : part.parameters)
    layer.parameters.push_back({"model." + name, shape, {}});
  if (bytes.fuses()) {
    add_fused_norm(d, layer.cost);
    layer.cost.after_forward.per_token += bytes.operand(d);
    layer.cost.after_input.per_token = bytes.stored(d) + bytes.operand(d);
    layer.cost.in_forward.per_token = bytes.stored(d);
    layer.frozen_cost = layer.cost;
    layer.frozen_cost->after_input = {};
    return layer;
  }
  const NormBytes norm = norm_bytes(c.norm, d, 1, bytes.stored(d), bytes);
  layer.cost.after_forward = {.constant = norm.constant,
                              .per_token = norm.per_token + bytes.operand(d)};
  layer.cost.after_input.per_token = bytes.stored(2 * d) + bytes.operand(d);
  layer.cost.in_forward.per_token = NumberBytes::wide(2 * d) + bytes.stored(d);
  layer.frozen_cost = layer.cost;
  layer.frozen_cost->after_forward.per_token = norm.frozen_per_token + bytes.operand(d);
  layer.frozen_cost->after_input = {};
  return layer;
}

LayerInfo decoder_head(const DecoderConfig& c, const std::string& embedding,
                       const NumberBytes& bytes) {
  LayerInfo layer = head_layer(c.vocab_size, c.hidden_size, embedding, bytes);
  if (!c.logit_cap || computes_loss(layer)) return layer;
  for (LayerCost* cost : {&layer.cost, &*layer.frozen_cost})  // the hyperbolic tangents
    cost->after_forward.per_token += bytes.product(c.vocab_size);
  return layer;
}

}  // namespace

BlockPart gated_mlp(const DecoderConfig& c, std::int64_t width, const NumberBytes& bytes,
                    const std::string& name) {
  const std::int64_t d = c.hidden_size, f = width;
  BlockPart part;
  if (c.fused_gate_up) {
    add_linear(part, name + ".gate_up_proj", 2 * f, d, c.mlp_bias);
  } else {
    add_linear(part, name + ".gate_proj", f, d, c.mlp_bias);
    add_linear(part, name + ".up_proj", f, d, c.mlp_bias);
  }
  add_linear(part, name + ".down_proj", d, f, c.mlp_bias);
  const int readers = c.fused_gate_up ? 1 : 2;
  // Gate, its activation and up, of which ReLU's needs no gate; and their product.
  const int between = c.activation == Activation::kRelu && !c.fused_gate_up ? 2 : 3;
  part.cost = matrices(static_cast<double>(3 * d) * static_cast<double>(f), bytes);
  part.cost.on_entry = {
      .constant = bytes.weight_gradient(static_cast<double>(f) * static_cast<double>(d)),
      .per_token = bytes.product(2 * f)};
  part.cost.in_forward.per_token = bytes.product(4 * d + (c.fused_gate_up ? 4 : 3) * f);
  part.frozen_cost = part.cost;
  part.cost.after_forward.per_token = bytes.operand(d, readers) + bytes.product((between + 1) * f);
  part.cost.after_input.per_token = bytes.operand(d, readers) + bytes.product(d + 3 * f);
  part.frozen_cost.after_forward.per_token = bytes.product(between * f);
  part.fuses = bytes.fuses() && fuses_feed_forward(c);
  return part;
}

ModelSpec decoder_model(const DecoderConfig& config, const Precision& precision,
                        const FeedForwardPart& feed_forward) {
  const NumberBytes bytes(precision);
  const std::int64_t d = config.hidden_size;
  const std::string embedding = "model.embed_tokens.weight";
  ModelSpec model;
  model.inputs = decoder_inputs();
  model.vocab_size = config.vocab_size;
  model.usual_positions = config.max_position_embeddings;
  model.layers.reserve(static_cast<std::size_t>(config.num_layers) + 3);
  model.layers.push_back(
      embedding_layer("model.embed_tokens", {{embedding, {config.vocab_size, d}, {}}}, bytes));
  if (config.embedding_scale != 1.0)
    model.layers.back().cost.in_forward.per_token += bytes.stored(d);
  const BlockPart mlp = gated_mlp(config, config.intermediate_size, bytes);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const BlockConfig& block = config.blocks.at(static_cast<std::size_t>(i));
    LayerInfo layer = hidden_layer("model.layers." + std::to_string(i), LayerRole::kBlock, d);
    layer.reads = block_reads();
    BlockPart attends = attention(config, block, bytes);
    BlockPart feeds = feed_forward ? feed_forward(i, bytes) : mlp;
    FusedBytes fused;
    if (attends.fuses) fused.add(fused_attention(config));
    if (feeds.fuses) fused.add(fused_feed_forward(config));
    for (BlockPart* part : {&attends, &feeds}) {
      if (!part->fuses) continue;
      keep_operations_alone(part->cost);
      keep_operations_alone(part->frozen_cost);
    }
    if (feeds.fuses && !attends.fuses && !config.attention_cap) {
      attends.cost.on_entry = attends.frozen_cost.on_entry =
          entry_of_plain_attention(2 * (config.query_width() + config.key_value_width()),
                                   config.num_attention_heads, config.attention_dropout > 0, bytes);
    }
    const BlockPart norms = block_norms(config, bytes, !attends.fuses + !feeds.fuses);
    append_parts(layer, {attends, feeds, norms});
    layer.writes.insert(layer.writes.end(), feeds.writes.begin(), feeds.writes.end());
    layer.cost = one_after_other(one_after_other(attends.cost, feeds.cost), norms.cost);
    layer.frozen_cost =
        one_after_other(one_after_other(attends.frozen_cost, feeds.frozen_cost), norms.frozen_cost);
    layer.frozen_cost->after_input = {};
    layer.frozen_cost->on_entry.constant = 0;
    fused.add_to(layer.cost, *layer.frozen_cost);
    model.layers.push_back(std::move(layer));
  }
  model.layers.push_back(norm_layer(config, bytes));
  model.layers.push_back(decoder_head(config, config.tie_word_embeddings ? embedding : "", bytes));
  return model;
}

}  // namespace sluice::detail
