#include "plan/predict/activation_memory.h"

#include <algorithm>

#include "base/saturate.h"

namespace sluice {
namespace {

constexpr std::int64_t kFloat = 4, kInt64 = 8;

// Elements a token, or in all where said. D hidden size, F inner size, Q and K widths of all query
// and key heads, H query heads, V vocabulary, L length.
struct Elements {
  std::int64_t forward = 0, input = 0;       // a token
  std::int64_t entry = 0, entry_in_all = 0;  // a token; and once
  std::int64_t end_in_all = 0;
};

// Two norms (x, normalized and result; one inverse root), q, k, v, the result of attention and its
// copy by rows, one log-sum a head; gate, its activation, up, and their product.
Elements llama_layer(const DecoderConfig& c, std::int64_t length) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size, h = c.num_attention_heads;
  const std::int64_t q = h * c.head_dim, k = c.num_key_value_heads * c.head_dim;
  Elements e;
  e.forward = 6 * d + 3 * q + 2 * k + 4 * f + h + 2;
  // With dropout the probabilities of attention are made: before and after it, and its mask; and
  // every query head gets keys and values of its own.
  if (c.attention_dropout > 0) e.forward += 3 * h * length - h - q + 2 * (q - k);
  // Of every matrix its input and the gradient of its output; of every norm the same.
  e.input = 8 * d + 2 * q + 2 * k + 3 * f;
  e.entry = 2 * f;
  e.entry_in_all = f * d;
  return e;
}

Elements gpt2_layer(const DecoderConfig& c, std::int64_t length) {
  const std::int64_t d = c.hidden_size, f = c.intermediate_size, h = c.num_attention_heads;
  Elements e;
  e.forward = 8 * d + 2 * f + h + 4;
  if (c.residual_dropout > 0) e.forward += 2 * d;
  if (c.attention_dropout > 0) e.forward += 3 * h * length - h;
  e.input = 8 * d + 2 * f;
  e.entry = 2 * f;
  e.entry_in_all = f * d;
  return e;
}

}  // namespace

ActivationBytes layer_activations(const ModelSpec& model, const LayerInfo& layer,
                                  const MicrobatchShape& shape) {
  const DecoderConfig& c = model.config;
  const std::int64_t d = c.hidden_size, v = c.vocab_size;
  const bool gpt2 = model.family == "gpt2";
  Elements e;
  switch (layer.kind) {
    case LayerKind::kEmbedding:  // the ids; the gradient of the table is as large as the table
      e.forward = kInt64 / kFloat + (c.embedding_dropout > 0 ? d : 0);
      e.input = kInt64 / kFloat + d;
      e.end_in_all = v * d;
      break;
    case LayerKind::kDecoder:
      e = gpt2 ? gpt2_layer(c, shape.length) : llama_layer(c, shape.length);
      break;
    case LayerKind::kNorm:  // x, normalized (not LayerNorm, which computes it again), result
      e.forward = gpt2 ? 2 * d + 2 : 3 * d + 1;
      e.input = 3 * d;
      break;
    case LayerKind::kHead:  // the log-probabilities and targets of the loss
      e.forward = v + kInt64 / kFloat;
      e.input = v;
      e.entry = 2 * v;
      break;
  }
  const auto bytes = [&](std::int64_t a_token, std::int64_t in_all) {
    return saturating_multiply(
        kFloat, saturating_add(saturating_multiply(shape.tokens(), a_token), in_all));
  };
  return {bytes(e.forward, 0), bytes(e.input, 0), bytes(e.entry, e.entry_in_all),
          bytes(0, e.end_in_all)};
}

ActivationBytes stage_activations(const ModelSpec& model, const StageContent& stage,
                                  const MicrobatchShape& shape) {
  ActivationBytes sum;
  for (const int index : stage.layers) {
    const ActivationBytes layer =
        layer_activations(model, model.layers.at(static_cast<std::size_t>(index)), shape);
    sum.after_forward = saturating_add(sum.after_forward, layer.after_forward);
    sum.after_input = saturating_add(sum.after_input, layer.after_input);
    sum.on_entry = std::max(sum.on_entry, layer.on_entry);
    sum.at_end = std::max(sum.at_end, layer.at_end);
  }
  return sum;
}

RowActivations row_activations(const std::vector<Action>& row,
                               const std::vector<ActivationBytes>& stages) {
  RowActivations result;
  std::int64_t held = 0;
  auto count = [&](const Action& action) {
    const ActivationBytes& stage = stages.at(static_cast<std::size_t>(action.stage));
    const std::int64_t before = held;
    const bool ends = action.kind == ActionKind::kBackward;
    const bool turns = action.kind == ActionKind::kBackwardInput;
    if (action.kind == ActionKind::kForward) held = saturating_add(held, stage.after_forward);
    if (turns) held = saturating_add(held, stage.after_input);
    if (ends || turns) held = saturating_subtract(held, stage.after_forward);
    if (action.kind == ActionKind::kBackwardWeight) {
      held = saturating_subtract(held, stage.after_input);
    }
    result.kept = std::max(result.kept, held);
    result.peak = std::max(result.peak, held);
    if (action.kind == ActionKind::kForward) return;
    result.peak = std::max(
        {result.peak, saturating_add(before, stage.on_entry), saturating_add(held, stage.at_end)});
  };
  for (const Action& action : row) {
    if (action.kind == ActionKind::kOverlap) {
      count(action.overlap_forward());
      count(action.overlap_backward());
    } else if (is_compute(action.kind)) {
      count(action);
    }
  }
  return result;
}

}  // namespace sluice
