// GPT-2: Radford et al., 2019. Shapes: modules.h.
#include <ATen/ATen.h>

#include <cmath>

#include "base/format.h"
#include "family/gpt2.h"
#include "layer/keyed_stream.h"
#include "model/attention_inputs.h"
#include "model/families.h"
#include "model/modules.h"
#include "ops/attention_block.h"
#include "ops/feed_forward_block.h"
#include "parallel/divided_operators.h"
#include "parallel/shared_weights.h"
#include "plan/slices.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

class Gpt2Embedding : public torch::nn::Module {
 public:
  Gpt2Embedding(const Gpt2Config& config, const LayerOptions& options)
      : dropout_(config.embedding_dropout), tp_(SliceGroup::current()) {
    const std::int64_t d = config.hidden_size;
    wte_ = register_module("wte", std::make_shared<Embedding>(config.vocab_size, d, -1, options));
    wpe_ = register_module("wpe", std::make_shared<Embedding>(config.num_positions, d, -1, options,
                                                              /*is_divided=*/false));
  }

  at::Tensor forward(const at::Tensor& ids_BL, const at::Tensor& position_ids_BL) const {
    const at::Tensor& positions = wpe_->weight();
    const std::int64_t length = ids_BL.size(1);
    if (length > positions.size(0)) {
      throw Error(ErrorKind::kUsage,
                  {.what = formatted("sequences have {} tokens, but the model has {} positions",
                                     length, positions.size(0)),
                   .where = "transformer.wpe",
                   .remedy = "lower `seq_len`"});
    }
    at::Tensor embedded;
    if (position_ids_BL.defined()) {
      embedded = wpe_->forward(position_ids_BL);
    } else if (tp_.slices().count > 1) {
      embedded = wpe_->forward(at::arange(length, ids_BL.options()).expand_as(ids_BL));
    } else {
      embedded = positions.narrow(0, 0, length);
    }
    return dropout_rows(wte_->forward(ids_BL) + embedded, is_training() ? dropout_ : 0, tp_);
  }

 private:
  double dropout_;
  SliceGroup tp_;
  std::shared_ptr<Embedding> wte_, wpe_;
};

class Gpt2Attention : public torch::nn::Module {
 public:
  Gpt2Attention(const Gpt2Config& config, std::shared_ptr<AttentionInputs> inputs,
                const LayerOptions& options)
      : head_dim_(config.hidden_size / config.num_attention_heads),
        inputs_(std::move(inputs)),
        attention_dropout_(config.attention_dropout),
        residual_dropout_(config.residual_dropout),
        tp_(SliceGroup::current()),
        fused_(options.fused && fuses_attention(config)) {
    const std::int64_t d = config.hidden_size;
    require_whole_units({.slices = tp_.slices().count}, config.num_attention_heads, "heads");
    c_attn_ = register_module(
        "c_attn",
        std::make_shared<Conv1D>(d, 3 * d, options, Division{Division::How::kColumns, {d, d, d}}));
    c_proj_ = register_module(
        "c_proj", std::make_shared<Conv1D>(d, d, options, Division{Division::How::kRows}));
  }

  // Returns x + this(before(x)), computed by one autograd node, or an undefined tensor if that is
  // impossible.
  at::Tensor fused(const at::Tensor& x_BLD, const BatchPositions& batch,
                   const ops::NormWeights& before) const {
    if (!fused_ || !supports_fused(x_BLD)) return {};
    const auto first_keys = inputs_->first_keys(batch, x_BLD.size(0), whole_length(x_BLD, tp_), 0);
    if (!first_keys) return {};
    const std::int64_t heads = x_BLD.size(2) / head_dim_;
    return ops::attention_block(
        x_BLD,
        {.half = {.before = before,
                  .projections = {c_attn_->weights()},
                  .last = c_proj_->weights(),
                  .slices = tp_},
         .num_heads = heads,
         .num_key_value_heads = heads,
         .head_dim = head_dim_,
         .score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim_)))},
        {.first_keys = *first_keys});
  }

  at::Tensor forward(const at::Tensor& x_BLD, const BatchPositions& batch) const {
    const at::Tensor result_BLD = tp_.slices().count == 1
                                      ? c_proj_->forward(attended(c_attn_->forward(x_BLD), batch))
                                      : forward_slices(x_BLD, batch);
    return is_training() ? dropout_rows(result_BLD, residual_dropout_, tp_) : result_BLD;
  }

 private:
  at::Tensor forward_slices(const at::Tensor& x_BLD, const BatchPositions& batch) const {
    std::vector<at::Tensor> parts = c_attn_->columns(enter(x_BLD, tp_));
    const DividedDraw draw;
    std::int64_t slice = tp_.slices().begin;
    for (at::Tensor& of_slice : parts)
      of_slice = draw.of_slice(slice++, [&] { return attended(of_slice, batch); });
    return c_proj_->rows(parts);
  }

  // [B, L, 3 N] -> [B, L, N] for heads with N channels
  at::Tensor attended(const at::Tensor& all, const BatchPositions& batch) const {
    const std::vector<at::Tensor> qkv = all.chunk(3, -1);
    const at::Tensor q_BHLE = split_heads(qkv[0], head_dim_);
    return attention(q_BHLE, split_heads(qkv[1], head_dim_), split_heads(qkv[2], head_dim_),
                     inputs_->mask(batch, q_BHLE, {}),
                     {is_training() ? attention_dropout_ : 0.0, std::nullopt});
  }

  std::int64_t head_dim_;
  std::shared_ptr<AttentionInputs> inputs_;
  double attention_dropout_, residual_dropout_;
  SliceGroup tp_;
  bool fused_;
  std::shared_ptr<Conv1D> c_attn_, c_proj_;
};

class Gpt2Mlp : public torch::nn::Module {
 public:
  Gpt2Mlp(const Gpt2Config& config, const LayerOptions& options)
      : dropout_(config.residual_dropout),
        tp_(SliceGroup::current()),
        fused_(options.fused && fuses_feed_forward(config)),
        width_(config.intermediate_size) {
    const std::int64_t d = config.hidden_size, f = width_;
    c_fc_ = register_module(
        "c_fc", std::make_shared<Conv1D>(d, f, options, Division{Division::How::kColumns}));
    c_proj_ = register_module(
        "c_proj", std::make_shared<Conv1D>(f, d, options, Division{Division::How::kRows}));
  }

  at::Tensor fused(const at::Tensor& x_BLD, const ops::NormWeights& before) const {
    if (!fused_ || !supports_fused(x_BLD)) return {};
    return ops::feed_forward_block(x_BLD, {.half = {.before = before,
                                                    .projections = {c_fc_->weights()},
                                                    .last = c_proj_->weights(),
                                                    .slices = tp_},
                                           .is_gated = false,
                                           .activation = ops::Activation::kGeluTanh,
                                           .width = width_});
  }

  at::Tensor forward(const at::Tensor& x_BLD) const {
    at::Tensor result_BLD;
    if (tp_.slices().count == 1) {
      const at::Tensor inner_BLF = at::gelu(c_fc_->forward(x_BLD), "tanh");
      result_BLD = c_proj_->forward(inner_BLF);
    } else {
      std::vector<at::Tensor> parts = c_fc_->columns(enter(x_BLD, tp_));
      for (at::Tensor& of_slice : parts) of_slice = at::gelu(of_slice, "tanh");
      result_BLD = c_proj_->rows(parts);
    }
    return is_training() ? dropout_rows(result_BLD, dropout_, tp_) : result_BLD;
  }

 private:
  double dropout_;
  SliceGroup tp_;
  bool fused_;
  std::int64_t width_;
  std::shared_ptr<Conv1D> c_fc_, c_proj_;
};

class Gpt2Layer : public torch::nn::Module {
 public:
  Gpt2Layer(const Gpt2Config& config, std::shared_ptr<AttentionInputs> inputs,
            const LayerOptions& options) {
    const auto norm = [&] {
      return std::make_shared<LayerNorm>(config.hidden_size, config.norm_eps, options);
    };
    ln_1_ = register_module("ln_1", norm());
    attn_ = register_module("attn",
                            std::make_shared<Gpt2Attention>(config, std::move(inputs), options));
    ln_2_ = register_module("ln_2", norm());
    mlp_ = register_module("mlp", std::make_shared<Gpt2Mlp>(config, options));
  }

  at::Tensor forward(const at::Tensor& x_BLD, const at::Tensor& attention_mask_BL,
                     const at::Tensor& position_ids_BL) const {
    const BatchPositions batch{attention_mask_BL, position_ids_BL};
    at::Tensor h_BLD = attn_->fused(x_BLD, batch, ln_1_->weights());
    if (!h_BLD.defined()) h_BLD = x_BLD + attn_->forward(ln_1_->forward(x_BLD), batch);
    const at::Tensor y_BLD = mlp_->fused(h_BLD, ln_2_->weights());
    return y_BLD.defined() ? y_BLD : h_BLD + mlp_->forward(ln_2_->forward(h_BLD));
  }

 private:
  std::shared_ptr<LayerNorm> ln_1_, ln_2_;
  std::shared_ptr<Gpt2Attention> attn_;
  std::shared_ptr<Gpt2Mlp> mlp_;
};

}  // namespace

std::vector<LayerSpec> make_gpt2_layers(const ModelSpec& model, const LayerOptions& options) {
  const Gpt2Config config = config_of(model, read_gpt2_config);
  // Weights whose outputs are added to the residual start smaller (section 2.3).
  const double std = initializer_std(config.initializer_range);
  const double residual_std = std / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  const auto initial_std = [=](const std::string& name) {
    return name.ends_with("c_proj.weight") ? residual_std : std;
  };
  const auto inputs = std::make_shared<AttentionInputs>();
  return assemble_layers(
      model, options, {initial_std, -1},
      [=] { return std::make_shared<Gpt2Embedding>(config, options); },
      [=](std::int64_t) { return std::make_shared<Gpt2Layer>(config, inputs, options); },
      [=] { return std::make_shared<LayerNorm>(config.hidden_size, config.norm_eps, options); },
      {.hidden_size = config.hidden_size, .vocab_size = config.vocab_size});
}

}  // namespace sluice::detail
