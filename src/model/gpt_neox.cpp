// GPT-NeoX: Black et al., arXiv:2204.06745. Shapes: modules.h.
#include <ATen/ATen.h>

#include <cmath>
#include <tuple>

#include "family/gpt_neox.h"
#include "layer/keyed_stream.h"
#include "model/attention_inputs.h"
#include "model/decoder_layer.h"
#include "model/families.h"
#include "model/modules.h"
#include "ops/attention_block.h"
#include "ops/feed_forward_block.h"
#include "parallel/divided_operators.h"
#include "parallel/shared_weights.h"
#include "plan/slices.h"

namespace sluice::detail {
namespace {

class GptNeoxEmbedding : public Embedding {
 public:
  GptNeoxEmbedding(const GptNeoxConfig& config, const LayerOptions& options)
      : Embedding(config.vocab_size, config.hidden_size, /*padding_row=*/-1, options),
        dropout_(config.hidden_dropout) {}

  at::Tensor forward(const at::Tensor& ids_BL) const {
    const at::Tensor found_BLD = Embedding::forward(ids_BL);
    return is_training() ? dropout_rows(found_BLD, dropout_, tp_) : found_BLD;
  }

 private:
  double dropout_;
};

class GptNeoxAttention : public torch::nn::Module {
 public:
  GptNeoxAttention(const GptNeoxConfig& config, std::shared_ptr<AttentionInputs> inputs,
                   const LayerOptions& options)
      : num_heads_(config.num_attention_heads),
        dropout_(config.attention_dropout),
        tp_(SliceGroup::current()),
        fused_(options.fused && fuses(config)),
        inputs_(std::move(inputs)) {
    const std::int64_t d = config.hidden_size;
    require_whole_units({.slices = tp_.slices().count}, num_heads_, "heads");
    const auto add = [&](const char* name, std::int64_t out, Division division) {
      return register_module(name, std::make_shared<Linear>(d, out, config.attention_bias, options,
                                                            std::move(division)));
    };
    query_key_value_ = add("query_key_value", 3 * d, {Division::How::kColumns});
    dense_ = add("dense", d, {Division::How::kRows});
  }

  // Returns this(before(x)), plus x if adds_input, computed by one autograd node, or an undefined
  // tensor if that is impossible.
  at::Tensor fused(const at::Tensor& x_BLD, const BatchPositions& batch,
                   const ops::NormWeights& before, bool adds_input) const {
    if (!fused_ || !supports_fused(x_BLD)) return {};
    const std::int64_t length = whole_length(x_BLD, tp_);
    const auto first_keys = inputs_->first_keys(batch, x_BLD.size(0), length, 0);
    if (!first_keys) return {};
    ops::AttentionPositions positions{.first_keys = *first_keys};
    std::tie(positions.cosines, positions.sines) =
        inputs_->rotary(0, batch.position_ids, length, x_BLD.device());
    const std::int64_t head_dim = x_BLD.size(2) / num_heads_;
    return ops::attention_block(
        x_BLD,
        {.half = {.before = before,
                  .projections = {query_key_value_->weights()},
                  .last = dense_->weights(),
                  .adds_input = adds_input,
                  .slices = tp_},
         .interleaved_heads = true,
         .num_heads = num_heads_,
         .num_key_value_heads = num_heads_,
         .head_dim = head_dim,
         .score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)))},
        positions);
  }

  at::Tensor forward(const at::Tensor& x_BLD, const BatchPositions& batch) const {
    if (tp_.slices().count == 1)
      return dense_->forward(attended(query_key_value_->forward(x_BLD), num_heads_, batch));
    std::vector<at::Tensor> parts = query_key_value_->columns(detail::enter(x_BLD, tp_));
    const DividedDraw draw;
    std::int64_t slice = tp_.slices().begin;
    for (at::Tensor& of_slice : parts) {
      of_slice = draw.of_slice(
          slice++, [&] { return attended(of_slice, num_heads_ / tp_.slices().count, batch); });
    }
    return dense_->rows(parts);
  }

 private:
  // Each head's query, key and value are adjacent.
  at::Tensor attended(const at::Tensor& all_BLN, std::int64_t num_heads,
                      const BatchPositions& batch) const {
    const std::vector<at::Tensor> qkv =
        all_BLN.unflatten(-1, {num_heads, -1}).transpose(1, 2).chunk(3, -1);
    const auto [cos, sin] =
        inputs_->rotary(0, batch.position_ids, all_BLN.size(1), all_BLN.device());
    const at::Tensor q_BHLE = rotate(qkv[0], cos, sin), k_BHLE = rotate(qkv[1], cos, sin);
    // A view would keep the unrotated queries and keys in memory.
    const at::Tensor v_BHLE = qkv[2].contiguous();
    const at::Tensor mask = inputs_->mask(batch, q_BHLE, {});
    return attention(q_BHLE, k_BHLE, v_BHLE, mask, {is_training() ? dropout_ : 0.0, std::nullopt});
  }

  std::int64_t num_heads_;
  double dropout_;
  SliceGroup tp_;
  bool fused_;
  std::shared_ptr<AttentionInputs> inputs_;
  std::shared_ptr<Linear> query_key_value_, dense_;
};

class GptNeoxMlp : public torch::nn::Module {
 public:
  GptNeoxMlp(const GptNeoxConfig& config, const LayerOptions& options)
      : activation_(config.activation),
        tp_(SliceGroup::current()),
        fused_(options.fused && fuses(config)),
        width_(config.intermediate_size) {
    const std::int64_t d = config.hidden_size, f = config.intermediate_size;
    dense_h_to_4h_ = register_module(
        "dense_h_to_4h",
        std::make_shared<Linear>(d, f, /*bias=*/true, options, Division{Division::How::kColumns}));
    dense_4h_to_h_ = register_module(
        "dense_4h_to_h",
        std::make_shared<Linear>(f, d, /*bias=*/true, options, Division{Division::How::kRows}));
  }

  at::Tensor fused(const at::Tensor& x_BLD, const ops::NormWeights& before, bool adds_input) const {
    if (!fused_ || !supports_fused(x_BLD)) return {};
    return ops::feed_forward_block(x_BLD, {.half = {.before = before,
                                                    .projections = {dense_h_to_4h_->weights()},
                                                    .last = dense_4h_to_h_->weights(),
                                                    .adds_input = adds_input,
                                                    .slices = tp_},
                                           .is_gated = false,
                                           .activation = kernel_of(activation_),
                                           .width = width_});
  }

  at::Tensor forward(const at::Tensor& x_BLD) const {
    if (tp_.slices().count == 1)
      return dense_4h_to_h_->forward(activate(dense_h_to_4h_->forward(x_BLD), activation_));
    std::vector<at::Tensor> parts = dense_h_to_4h_->columns(detail::enter(x_BLD, tp_));
    for (at::Tensor& of_slice : parts) of_slice = activate(of_slice, activation_);
    return dense_4h_to_h_->rows(parts);
  }

 private:
  Activation activation_;
  SliceGroup tp_;
  bool fused_;
  std::int64_t width_;
  std::shared_ptr<Linear> dense_h_to_4h_, dense_4h_to_h_;
};

class GptNeoxLayer : public torch::nn::Module {
 public:
  GptNeoxLayer(const GptNeoxConfig& config, std::shared_ptr<AttentionInputs> inputs,
               const LayerOptions& options)
      : parallel_(config.parallel_residual),
        dropout_(config.hidden_dropout),
        tp_(SliceGroup::current()),
        fused_(options.fused && fuses(config)) {
    const auto norm = [&](const char* name) {
      return register_module(
          name, std::make_shared<LayerNorm>(config.hidden_size, config.norm_eps, options));
    };
    input_layernorm_ = norm("input_layernorm");
    post_attention_layernorm_ = norm("post_attention_layernorm");
    attention_ = register_module(
        "attention", std::make_shared<GptNeoxAttention>(config, std::move(inputs), options));
    mlp_ = register_module("mlp", std::make_shared<GptNeoxMlp>(config, options));
  }

  at::Tensor forward(const at::Tensor& x_BLD, const at::Tensor& attention_mask_BL,
                     const at::Tensor& position_ids_BL) const {
    const BatchPositions batch{attention_mask_BL, position_ids_BL};
    if (fused_) {
      // With parallel residuals, attention and MLP read x, and only the attention adds it.
      const at::Tensor h_BLD =
          attention_->fused(x_BLD, batch, input_layernorm_->weights(), /*adds_input=*/true);
      if (h_BLD.defined()) {
        const at::Tensor y_BLD = mlp_->fused(parallel_ ? x_BLD : h_BLD,
                                             post_attention_layernorm_->weights(), !parallel_);
        if (y_BLD.defined()) return parallel_ ? y_BLD + h_BLD : y_BLD;
        return fed(parallel_ ? x_BLD : h_BLD) + h_BLD;
      }
    }
    const at::Tensor attended_BLD =
        dropped(attention_->forward(input_layernorm_->forward(x_BLD), batch));
    if (parallel_) return fed(x_BLD) + attended_BLD + x_BLD;
    const at::Tensor h_BLD = attended_BLD + x_BLD;
    return fed(h_BLD) + h_BLD;
  }

 private:
  at::Tensor fed(const at::Tensor& x_BLD) const {
    return dropped(mlp_->forward(post_attention_layernorm_->forward(x_BLD)));
  }
  at::Tensor dropped(const at::Tensor& x_BLD) const {
    return is_training() ? dropout_rows(x_BLD, dropout_, tp_) : x_BLD;
  }

  bool parallel_;
  double dropout_;
  SliceGroup tp_;
  bool fused_;
  std::shared_ptr<LayerNorm> input_layernorm_, post_attention_layernorm_;
  std::shared_ptr<GptNeoxAttention> attention_;
  std::shared_ptr<GptNeoxMlp> mlp_;
};

}  // namespace

std::vector<LayerSpec> make_gpt_neox_layers(const ModelSpec& model, const LayerOptions& options) {
  const GptNeoxConfig config = config_of(model, read_gpt_neox_config);
  const auto inputs = std::make_shared<AttentionInputs>(std::vector<std::shared_ptr<RotaryTable>>{
      std::make_shared<RotaryTable>(config.rotary_dim, config.rope)});
  const double std = initializer_std(config.initializer_range);
  return assemble_layers(
      model, options, {[=](const std::string&) { return std; }},
      [=] { return std::make_shared<GptNeoxEmbedding>(config, options); },
      [=](std::int64_t) { return std::make_shared<GptNeoxLayer>(config, inputs, options); },
      [=] { return std::make_shared<LayerNorm>(config.hidden_size, config.norm_eps, options); },
      {.hidden_size = config.hidden_size, .vocab_size = config.vocab_size});
}

}  // namespace sluice::detail
