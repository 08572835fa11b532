// GPT-2: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
// Legend of shapes: modules.h.
#include <ATen/ATen.h>

#include <cmath>

#include "base/format.h"
#include "family/gpt2.h"
#include "model/attention_inputs.h"
#include "model/families.h"
#include "model/modules.h"
#include "ops/attention_block.h"
#include "ops/feed_forward_block.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

class Gpt2Embedding : public torch::nn::Module {
 public:
  Gpt2Embedding(const Gpt2Config& config, const LayerOptions& options)
      : dropout_(config.embedding_dropout) {
    require_one_slice("the family gpt2");
    const std::int64_t d = config.hidden_size;
    wte_ = register_module("wte", std::make_shared<Embedding>(config.vocab_size, d, -1, options));
    wpe_ =
        register_module("wpe", std::make_shared<Embedding>(config.num_positions, d, -1, options));
  }

  at::Tensor forward(const at::Tensor& ids_BL, const at::Tensor& position_ids_BL) const {
    const at::Tensor& positions = wpe_->weight();
    const std::int64_t length = ids_BL.size(1);
    if (length > positions.size(0)) {
      throw Error(ErrorKind::kUsage,
                  {.what = formatted("sequences have {} tokens, the model has {} positions", length,
                                     positions.size(0)),
                   .where = "transformer.wpe",
                   .remedy = "lower `seq_len`"});
    }
    const at::Tensor embedded =
        position_ids_BL.defined() ? wpe_->forward(position_ids_BL) : positions.narrow(0, 0, length);
    return at::dropout(wte_->forward(ids_BL) + embedded, dropout_, is_training());
  }

 private:
  double dropout_;
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
        fused_(options.fused && fuses_attention(config)) {
    const std::int64_t d = config.hidden_size;
    c_attn_ = register_module("c_attn", std::make_shared<Conv1D>(d, 3 * d, options));
    c_proj_ = register_module("c_proj", std::make_shared<Conv1D>(d, d, options));
  }

  // x + this(before(x)) as one node; undefined where that cannot be.
  at::Tensor fused(const at::Tensor& x_BLD, const BatchPositions& batch,
                   const ops::NormWeights& before) const {
    if (!fused_ || !takes_fused(x_BLD)) return {};
    const auto first_keys = inputs_->first_keys(batch, x_BLD.size(0), x_BLD.size(1), 0);
    if (!first_keys) return {};
    const std::int64_t heads = x_BLD.size(2) / head_dim_;
    return ops::attention_block(
        x_BLD,
        {.before = before,
         .projections = {c_attn_->weights()},
         .output = c_proj_->weights(),
         .num_heads = heads,
         .num_key_value_heads = heads,
         .head_dim = head_dim_,
         .score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim_)))},
        {.first_keys = *first_keys});
  }

  at::Tensor forward(const at::Tensor& x_BLD, const BatchPositions& batch) const {
    const std::vector<at::Tensor> qkv = c_attn_->forward(x_BLD).chunk(3, -1);
    const at::Tensor q_BHLE = split_heads(qkv[0], head_dim_);
    const at::Tensor out_BLD = attention(
        q_BHLE, split_heads(qkv[1], head_dim_), split_heads(qkv[2], head_dim_),
        inputs_->mask(batch, q_BHLE, {}), {is_training() ? attention_dropout_ : 0.0, std::nullopt});
    return at::dropout(c_proj_->forward(out_BLD), residual_dropout_, is_training());
  }

 private:
  std::int64_t head_dim_;
  std::shared_ptr<AttentionInputs> inputs_;
  double attention_dropout_, residual_dropout_;
  bool fused_;
  std::shared_ptr<Conv1D> c_attn_, c_proj_;
};

class Gpt2Mlp : public torch::nn::Module {
 public:
  Gpt2Mlp(const Gpt2Config& config, const LayerOptions& options)
      : dropout_(config.residual_dropout), fused_(options.fused && fuses_feed_forward(config)) {
    const std::int64_t d = config.hidden_size, f = config.intermediate_size;
    c_fc_ = register_module("c_fc", std::make_shared<Conv1D>(d, f, options));
    c_proj_ = register_module("c_proj", std::make_shared<Conv1D>(f, d, options));
  }

  // x + this(before(x)) as one node; undefined where that cannot be.
  at::Tensor fused(const at::Tensor& x_BLD, const ops::NormWeights& before) const {
    if (!fused_ || !takes_fused(x_BLD)) return {};
    return ops::feed_forward_block(x_BLD, {.before = before,
                                           .projections = {c_fc_->weights()},
                                           .is_gated = false,
                                           .activation = ops::Activation::kGeluTanh,
                                           .down = c_proj_->weights()});
  }

  at::Tensor forward(const at::Tensor& x_BLD) const {
    const at::Tensor inner_BLF = at::gelu(c_fc_->forward(x_BLD), "tanh");
    return at::dropout(c_proj_->forward(inner_BLF), dropout_, is_training());
  }

 private:
  double dropout_;
  bool fused_;
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
  // Weights that write into the residual stream start smaller by the number of such writes
  // (section 2.3).
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
