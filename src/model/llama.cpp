// Llama: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", arXiv:2302.13971;
// grouped-query attention after Ainslie et al., arXiv:2305.13245; gated MLP after Shazeer,
// arXiv:2002.05202. Legend of shapes: modules.h.
#include "model/llama.h"

#include <ATen/ATen.h>

#include "model/families.h"
#include "model/modules.h"
#include "model/rotary.h"

namespace sluice::detail {
namespace {

class LlamaAttention : public torch::nn::Module {
 public:
  LlamaAttention(const LlamaConfig& config, std::shared_ptr<RotaryTable> rotary,
                 const LayerOptions& options)
      : head_dim_(config.head_dim), dropout_(config.attention_dropout), rotary_(std::move(rotary)) {
    const std::int64_t d = config.hidden_size;
    const std::int64_t q = config.query_width(), kv = config.key_value_width();
    const bool bias = config.qkv_bias;
    q_proj_ = register_module("q_proj", std::make_shared<Linear>(d, q, bias, options));
    k_proj_ = register_module("k_proj", std::make_shared<Linear>(d, kv, bias, options));
    v_proj_ = register_module("v_proj", std::make_shared<Linear>(d, kv, bias, options));
    o_proj_ =
        register_module("o_proj", std::make_shared<Linear>(q, d, config.output_bias, options));
  }

  at::Tensor forward(const at::Tensor& x_BLD) const {
    const auto [cos_LR, sin_LR] = rotary_->get(x_BLD.size(1), x_BLD.device());
    const at::Tensor q_BHLE =
        rotate(split_heads(q_proj_->forward(x_BLD), head_dim_), cos_LR, sin_LR);
    const at::Tensor k_BKLE =
        rotate(split_heads(k_proj_->forward(x_BLD), head_dim_), cos_LR, sin_LR);
    const at::Tensor v_BKLE = split_heads(v_proj_->forward(x_BLD), head_dim_);
    return o_proj_->forward(
        causal_attention(q_BHLE, k_BKLE, v_BKLE, is_training() ? dropout_ : 0.0));
  }

 private:
  std::int64_t head_dim_;
  double dropout_;
  std::shared_ptr<RotaryTable> rotary_;
  std::shared_ptr<Linear> q_proj_, k_proj_, v_proj_, o_proj_;
};

class LlamaMlp : public torch::nn::Module {
 public:
  LlamaMlp(const LlamaConfig& config, const LayerOptions& options) {
    const std::int64_t d = config.hidden_size, f = config.intermediate_size;
    gate_proj_ =
        register_module("gate_proj", std::make_shared<Linear>(d, f, config.mlp_bias, options));
    up_proj_ = register_module("up_proj", std::make_shared<Linear>(d, f, config.mlp_bias, options));
    down_proj_ =
        register_module("down_proj", std::make_shared<Linear>(f, d, config.mlp_bias, options));
  }

  at::Tensor forward(const at::Tensor& x_BLD) const {
    const at::Tensor gate_BLF = at::silu(gate_proj_->forward(x_BLD));
    return down_proj_->forward(gate_BLF * up_proj_->forward(x_BLD));
  }

 private:
  std::shared_ptr<Linear> gate_proj_, up_proj_, down_proj_;
};

class LlamaLayer : public torch::nn::Module {
 public:
  LlamaLayer(const LlamaConfig& config, std::shared_ptr<RotaryTable> rotary,
             const LayerOptions& options) {
    const auto norm = [&] {
      return std::make_shared<RmsNorm>(config.hidden_size, config.norm_eps, options);
    };
    self_attn_ = register_module(
        "self_attn", std::make_shared<LlamaAttention>(config, std::move(rotary), options));
    mlp_ = register_module("mlp", std::make_shared<LlamaMlp>(config, options));
    input_layernorm_ = register_module("input_layernorm", norm());
    post_attention_layernorm_ = register_module("post_attention_layernorm", norm());
  }

  at::Tensor forward(const at::Tensor& x_BLD) const {
    const at::Tensor h_BLD = x_BLD + self_attn_->forward(input_layernorm_->forward(x_BLD));
    return h_BLD + mlp_->forward(post_attention_layernorm_->forward(h_BLD));
  }

 private:
  std::shared_ptr<LlamaAttention> self_attn_;
  std::shared_ptr<LlamaMlp> mlp_;
  std::shared_ptr<RmsNorm> input_layernorm_, post_attention_layernorm_;
};

}  // namespace

std::vector<LayerSpec> assemble_llama_layers(const LlamaConfig& config, const ModelSpec& model,
                                             const LayerOptions& options) {
  const auto rotary = std::make_shared<RotaryTable>(config.head_dim, config.rope);
  const double std = initializer_std(config.initializer_range);
  return assemble_layers(
      model, options, {[=](const std::string&) { return std; }, config.padding_row},
      [=] {
        return std::make_shared<Embedding>(config.vocab_size, config.hidden_size,
                                           config.padding_row, options);
      },
      [=] { return std::make_shared<LlamaLayer>(config, rotary, options); },
      [=] { return std::make_shared<RmsNorm>(config.hidden_size, config.norm_eps, options); });
}

std::vector<LayerSpec> make_llama_layers(const ModelSpec& model, const LayerOptions& options) {
  return assemble_llama_layers(config_of(model, read_llama_config), model, options);
}

}  // namespace sluice::detail
