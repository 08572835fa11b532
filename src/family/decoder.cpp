#include "family/decoder.h"

namespace sluice::detail {

std::vector<ValueSpec> decoder_inputs() {
  return {{"input_ids", {kMicrobatchRows, kMicrobatchLength}, "int64"},
          {"labels", {kMicrobatchRows, kMicrobatchLength}, "int64"}};
}

LayerInfo hidden_layer(std::string name, LayerRole role, std::int64_t width) {
  LayerInfo layer;
  layer.name = std::move(name);
  layer.role = role;
  layer.reads = {"hidden"};
  if (role == LayerRole::kBlock) layer.reads = {"hidden", "attention_mask", "position_ids"};
  layer.writes = {{"hidden", {kMicrobatchRows, kMicrobatchLength, width}}};
  return layer;
}

LayerInfo embedding_layer(std::string name, std::int64_t rows, std::int64_t width,
                          const Precision& precision, double dropout, bool scaled,
                          std::int64_t num_positions) {
  LayerInfo layer = hidden_layer(std::move(name), LayerRole::kEmbedding, width);
  layer.reads = {"input_ids"};
  OperatorList operators(precision);
  operators.matrix("", rows, width);
  operators.divide_outputs("");
  operators.embedding(rows, width, dropout, scaled, num_positions);
  operators.give(layer);
  return layer;
}

LayerInfo norm_layer(std::string name, NormKind kind, std::int64_t width,
                     const Precision& precision) {
  LayerInfo layer = hidden_layer(std::move(name), LayerRole::kNorm, width);
  OperatorList operators(precision);
  operators.vector("", width, kind == NormKind::kLayer);
  operators.last_norm(kind, width);
  operators.give(layer);
  return layer;
}

LayerInfo head_layer(std::string name, std::int64_t vocab_size, std::int64_t width,
                     const std::string& embedding, const Precision& precision, bool capped) {
  LayerInfo layer = hidden_layer(std::move(name), LayerRole::kHead, vocab_size);
  layer.writes.front().name = "logits";
  OperatorList operators(precision);
  operators.matrix("", vocab_size, width);
  operators.divide_outputs("");
  layer.loss_by_blocks = precision.chunks_loss(vocab_size);
  const bool has_loss = layer.loss_by_blocks || precision.loss_in_head;
  if (has_loss) {
    layer.reads = {"hidden", "labels"};
    layer.writes = {{"loss", {}}};
  }
  if (layer.loss_by_blocks) {
    operators.head_by_blocks(vocab_size, width);
  } else {
    operators.head(vocab_size, width, capped, has_loss);
  }
  operators.give(layer);
  layer.parameters.front().tied_to = embedding;
  return layer;
}

}  // namespace sluice::detail
