// Rotary positions: Su et al., arXiv:2104.09864. Grouped-query attention: Ainslie et al.,
// arXiv:2305.13245. Gated MLP: Shazeer, arXiv:2002.05202. Llama: arXiv:2302.13971. Mistral:
// arXiv:2310.06825. Qwen2: arXiv:2407.10671. Qwen3: arXiv:2505.09388. Shapes: modules.h.
#include "model/decoder_layer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <tuple>

#include "family/decoder_model.h"
#include "layer/keyed_stream.h"
#include "model/families.h"
#include "ops/attention_block.h"
#include "ops/feed_forward_block.h"
#include "parallel/divided_operators.h"
#include "parallel/shared_weights.h"
#include "plan/slices.h"

namespace sluice::detail {
namespace {

class DecoderEmbedding : public Embedding {
 public:
  DecoderEmbedding(const DecoderConfig& config, const LayerOptions& options)
      : Embedding(config.vocab_size, config.hidden_size, config.padding_row, options),
        scale_(config.embedding_scale),
        dropout_(config.embedding_dropout) {
    if (config.embedding_scale_in_weight_type)
      scale_ = at::scalar_tensor(scale_, options.dtype).item<double>();
  }

  at::Tensor forward(const at::Tensor& ids_BL) const {
    const at::Tensor found_BLD = Embedding::forward(ids_BL);
    const at::Tensor scaled_BLD = scale_ == 1.0 ? found_BLD : found_BLD * scale_;
    return is_training() ? dropout_rows(scaled_BLD, dropout_, tp_) : scaled_BLD;
  }

 private:
  double scale_, dropout_;
};

class DecoderAttention : public torch::nn::Module {
 public:
  DecoderAttention(const DecoderConfig& config, const BlockConfig& block,
                   std::shared_ptr<AttentionInputs> inputs, const LayerOptions& options)
      : head_dim_(config.head_dim),
        mask_kind_{block.window,
                   config.fully_masked_gets_mean ? AttentionInputs::Unseen::kLeast
                                                 : AttentionInputs::Unseen::kInfinity,
                   /*always=*/config.attention_cap.has_value()},
        rope_(block.rope),
        wide_rope_(config.wide_rope),
        widths_{config.query_width(), config.key_value_width(), config.key_value_width()},
        head_norms_(config.head_norms),
        unseen_is_mean_(config.fully_masked_gets_mean),
        dropout_(config.attention_dropout),
        scale_(config.attention_scale),
        cap_(config.attention_cap),
        tp_(SliceGroup::current()),
        fused_(options.fused && fuses_attention(config)),
        inputs_(std::move(inputs)) {
    const std::int64_t d = config.hidden_size, q = widths_[0], kv = widths_[1];
    require_whole_units({.slices = tp_.slices().count}, kv / head_dim_, "key-value heads");
    if (head_norms_ == HeadNorms::kTogether) require_one_slice("a norm over all heads");
    const auto add = [&](const char* name, std::int64_t in, std::int64_t out, bool bias,
                         Division division) {
      return register_module(name,
                             std::make_shared<Linear>(in, out, bias, options, std::move(division)));
    };
    const Division columns{Division::How::kColumns}, rows{Division::How::kRows};
    if (config.fused_qkv) {
      o_proj_ = add("o_proj", q, d, config.output_bias, rows);
      qkv_proj_ =
          add("qkv_proj", d, q + 2 * kv, config.qkv_bias, {Division::How::kColumns, {q, kv, kv}});
    } else {
      q_proj_ = add("q_proj", d, q, config.qkv_bias, columns);
      k_proj_ = add("k_proj", d, kv, config.qkv_bias, columns);
      v_proj_ = add("v_proj", d, kv, config.qkv_bias, columns);
      o_proj_ = add("o_proj", q, d, config.output_bias, rows);
    }
    if (head_norms_ == HeadNorms::kNone) return;
    const bool each = head_norms_ == HeadNorms::kEach;
    q_norm_ = register_module("q_norm", make_norm(config, each ? head_dim_ : q, options));
    k_norm_ = register_module("k_norm", make_norm(config, each ? head_dim_ : kv, options));
  }

  at::Tensor fused(const at::Tensor& x_BLD, const BatchPositions& batch,
                   const ops::NormWeights& before, const ops::NormWeights& behind,
                   double residual_scale) const {
    if (!fused_ || !supports_fused(x_BLD) || (is_training() && dropout_ > 0)) return {};
    const std::int64_t length = whole_length(x_BLD, tp_);
    const auto first_keys = inputs_->first_keys(batch, x_BLD.size(0), length, mask_kind_.window);
    if (!first_keys) return {};
    ops::AttentionPositions positions{.first_keys = *first_keys};
    if (rope_ >= 0) {
      std::tie(positions.cosines, positions.sines) = inputs_->rotary(
          static_cast<std::size_t>(rope_), batch.position_ids, length, x_BLD.device());
    }
    ops::AttentionBlock block{.half = {.before = before,
                                       .last = o_proj_->weights(),
                                       .behind = behind,
                                       .residual_scale = static_cast<float>(residual_scale),
                                       .slices = tp_},
                              .num_heads = widths_[0] / head_dim_,
                              .num_key_value_heads = widths_[1] / head_dim_,
                              .head_dim = head_dim_,
                              .score_scale = static_cast<float>(
                                  scale_.value_or(1.0 / std::sqrt(static_cast<double>(head_dim_)))),
                              .score_cap = static_cast<float>(cap_.value_or(0.0))};
    for (const auto& projection : {qkv_proj_, q_proj_, k_proj_, v_proj_})
      if (projection) block.half.projections.push_back(projection->weights());
    if (q_norm_) {
      block.query_norm = q_norm_->weights();
      block.key_norm = k_norm_->weights();
    }
    return ops::attention_block(x_BLD, block, positions);
  }

  at::Tensor forward(const at::Tensor& x_BLD, const BatchPositions& batch) const {
    if (tp_.slices().count > 1) return forward_slices(detail::enter(x_BLD, tp_), batch);
    at::Tensor q_BLN, k_BLN, v_BLN;
    if (qkv_proj_) {
      const auto parts = qkv_proj_->forward(x_BLD).split_with_sizes(widths_, -1);
      q_BLN = parts[0], k_BLN = parts[1], v_BLN = parts[2];
    } else {
      q_BLN = q_proj_->forward(x_BLD);
      k_BLN = k_proj_->forward(x_BLD);
      v_BLN = v_proj_->forward(x_BLD);
    }
    return o_proj_->forward(attended(heads(q_BLN, q_norm_), heads(k_BLN, k_norm_),
                                     split_heads(v_BLN, head_dim_), batch));
  }

 private:
  at::Tensor forward_slices(const std::vector<at::Tensor>& inputs,
                            const BatchPositions& batch) const {
    std::vector<at::Tensor> q, k, v;
    if (qkv_proj_) {
      std::vector<std::int64_t> widths;
      for (const std::int64_t width : widths_) widths.push_back(width / tp_.slices().count);
      for (const at::Tensor& all : qkv_proj_->columns(inputs)) {
        const auto parts = all.split_with_sizes(widths, -1);
        q.push_back(parts[0]), k.push_back(parts[1]), v.push_back(parts[2]);
      }
    } else {
      q = q_proj_->columns(inputs);
      k = k_proj_->columns(inputs);
      v = v_proj_->columns(inputs);
    }
    for (auto* all : {&q, &k, &v})
      for (at::Tensor& of_slice : *all) of_slice = of_slice.unflatten(-1, {-1, head_dim_});
    if (q_norm_) q = q_norm_->forward_each(q), k = k_norm_->forward_each(k);
    const DividedDraw draw;
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < q.size(); ++i) {
      parts.push_back(draw.of_slice(tp_.slices().begin + static_cast<std::int64_t>(i), [&] {
        return attended(q[i].transpose(1, 2), k[i].transpose(1, 2), v[i].transpose(1, 2), batch);
      }));
    }
    return o_proj_->rows(parts);
  }

  // [B, L, H * E]
  at::Tensor attended(at::Tensor q_BHLE, at::Tensor k_BKLE, const at::Tensor& v_BKLE,
                      const BatchPositions& batch) const {
    if (rope_ >= 0) {
      const auto [cos, sin] = inputs_->rotary(static_cast<std::size_t>(rope_), batch.position_ids,
                                              q_BHLE.size(2), q_BHLE.device());
      q_BHLE = turned(q_BHLE, cos, sin);
      k_BKLE = turned(k_BKLE, cos, sin);
    }
    const AttentionSettings settings{is_training() ? dropout_ : 0.0, scale_};
    const at::Tensor mask = inputs_->mask(batch, q_BHLE, mask_kind_);
    const bool is_plain = cap_ || (unseen_is_mean_ && batch.attention_mask.defined());
    return is_plain && mask.defined()
               ? plain_attention(q_BHLE, k_BKLE, v_BKLE, mask, cap_, settings)
               : attention(q_BHLE, k_BKLE, v_BKLE, mask, settings);
  }

  at::Tensor heads(const at::Tensor& x_BLN, const std::shared_ptr<Norm>& norm) const {
    if (!norm) return split_heads(x_BLN, head_dim_);
    if (head_norms_ == HeadNorms::kTogether) return split_heads(norm->forward(x_BLN), head_dim_);
    return norm->forward(x_BLN.unflatten(-1, {-1, head_dim_})).transpose(1, 2);
  }

  at::Tensor turned(const at::Tensor& x_BHLE, const at::Tensor& cos, const at::Tensor& sin) const {
    if (!wide_rope_) return rotate(x_BHLE, cos, sin);
    return rotate(x_BHLE.to(wide_type(x_BHLE)), cos, sin).to(x_BHLE.scalar_type());
  }

  std::int64_t head_dim_;
  AttentionInputs::Kind mask_kind_;
  int rope_;
  bool wide_rope_;
  std::vector<std::int64_t> widths_;
  HeadNorms head_norms_;
  bool unseen_is_mean_;
  double dropout_;
  std::optional<double> scale_, cap_;
  SliceGroup tp_;
  bool fused_;
  std::shared_ptr<AttentionInputs> inputs_;
  std::shared_ptr<Linear> q_proj_, k_proj_, v_proj_, qkv_proj_, o_proj_;
  std::shared_ptr<Norm> q_norm_, k_norm_;
};

class GatedMlp : public FeedForward {
 public:
  GatedMlp(const DecoderConfig& config, std::int64_t f, const LayerOptions& options)
      : activation_(config.activation),
        tp_(SliceGroup::current()),
        fused_(options.fused && fuses_feed_forward(config)),
        width_(f) {
    const std::int64_t d = config.hidden_size;
    const auto add = [&](const char* name, std::int64_t in, std::int64_t out, Division division) {
      return register_module(
          name, std::make_shared<Linear>(in, out, config.mlp_bias, options, std::move(division)));
    };
    const Division columns{Division::How::kColumns};
    if (config.fused_gate_up) {
      gate_up_proj_ = add("gate_up_proj", d, 2 * f, {Division::How::kColumns, {f, f}});
    } else {
      gate_proj_ = add("gate_proj", d, f, columns);
      up_proj_ = add("up_proj", d, f, columns);
    }
    down_proj_ = add("down_proj", f, d, {Division::How::kRows});
  }

  at::Tensor fused(const at::Tensor& x_BLD, const ops::NormWeights& before,
                   const ops::NormWeights& behind, double residual_scale) const override {
    if (!fused_ || !supports_fused(x_BLD)) return {};
    ops::FeedForwardBlock block{.half = {.before = before,
                                         .last = down_proj_->weights(),
                                         .behind = behind,
                                         .residual_scale = static_cast<float>(residual_scale),
                                         .slices = tp_},
                                .activation = kernel_of(activation_),
                                .width = width_};
    for (const auto& projection : {gate_up_proj_, gate_proj_, up_proj_})
      if (projection) block.half.projections.push_back(projection->weights());
    return ops::feed_forward_block(x_BLD, block);
  }

  Output forward(const at::Tensor& x_BLD, const BatchPositions& /*batch*/) const override {
    if (tp_.slices().count > 1) return {forward_slices(detail::enter(x_BLD, tp_))};
    if (gate_up_proj_) {
      const std::vector<at::Tensor> both = gate_up_proj_->forward(x_BLD).chunk(2, -1);
      return {down_proj_->forward(activate(both[0], activation_) * both[1])};
    }
    const at::Tensor gate_BLF = activate(gate_proj_->forward(x_BLD), activation_);
    return {down_proj_->forward(gate_BLF * up_proj_->forward(x_BLD))};
  }

 private:
  at::Tensor forward_slices(const std::vector<at::Tensor>& inputs) const {
    std::vector<at::Tensor> gates, ups;
    if (gate_up_proj_) {
      for (const at::Tensor& both : gate_up_proj_->columns(inputs)) {
        const std::vector<at::Tensor> halves = both.chunk(2, -1);
        gates.push_back(halves[0]), ups.push_back(halves[1]);
      }
    } else {
      gates = gate_proj_->columns(inputs);
      ups = up_proj_->columns(inputs);
    }
    for (std::size_t i = 0; i < gates.size(); ++i)
      gates[i] = activate(gates[i], activation_) * ups[i];
    return down_proj_->rows(gates);
  }

  Activation activation_;
  SliceGroup tp_;
  bool fused_;
  std::int64_t width_;
  std::shared_ptr<Linear> gate_proj_, up_proj_, gate_up_proj_, down_proj_;
};

class DecoderLayer : public torch::nn::Module {
 public:
  DecoderLayer(const DecoderConfig& config, const BlockConfig& block,
               std::shared_ptr<AttentionInputs> inputs, const std::string& feed_forward_name,
               std::shared_ptr<FeedForward> feed_forward, const LayerOptions& options)
      : residual_scale_(config.residual_scale),
        dropout_(config.residual_dropout),
        tp_(SliceGroup::current()) {
    const auto norm = [&](const char* name) {
      return register_module(name, make_norm(config, config.hidden_size, options));
    };
    self_attn_ = register_module(
        "self_attn", std::make_shared<DecoderAttention>(config, block, std::move(inputs), options));
    feed_forward_ = register_module(feed_forward_name, std::move(feed_forward));
    switch (config.norm_places) {
      case NormPlaces::kBefore:
        before_attention_ = norm("input_layernorm");
        before_feed_forward_ = norm("post_attention_layernorm");
        break;
      case NormPlaces::kBehind:
        behind_attention_ = norm("post_attention_layernorm");
        behind_feed_forward_ = norm("post_feedforward_layernorm");
        break;
      case NormPlaces::kBoth:
        before_attention_ = norm("input_layernorm");
        behind_attention_ = norm("post_attention_layernorm");
        before_feed_forward_ = norm("pre_feedforward_layernorm");
        behind_feed_forward_ = norm("post_feedforward_layernorm");
        break;
    }
  }

  std::vector<at::Tensor> forward(const at::Tensor& x_BLD, const at::Tensor& attention_mask_BL,
                                  const at::Tensor& position_ids_BL) const {
    const BatchPositions batch{attention_mask_BL, position_ids_BL};
    at::Tensor h_BLD = self_attn_->fused(x_BLD, batch, weights_of(before_attention_),
                                         weights_of(behind_attention_), residual_scale_);
    if (!h_BLD.defined()) {
      h_BLD = added(x_BLD, normed(behind_attention_,
                                  self_attn_->forward(normed(before_attention_, x_BLD), batch)));
    }
    const at::Tensor y_BLD = feed_forward_->fused(
        h_BLD, weights_of(before_feed_forward_), weights_of(behind_feed_forward_), residual_scale_);
    if (y_BLD.defined()) return {y_BLD};
    auto [fed_BLD, written] = feed_forward_->forward(normed(before_feed_forward_, h_BLD), batch);
    written.insert(written.begin(), added(h_BLD, normed(behind_feed_forward_, fed_BLD)));
    return written;
  }

 private:
  static ops::NormWeights weights_of(const std::shared_ptr<Norm>& norm) {
    return norm ? norm->weights() : ops::NormWeights();
  }
  static at::Tensor normed(const std::shared_ptr<Norm>& norm, const at::Tensor& x_BLD) {
    return norm ? norm->forward(x_BLD) : x_BLD;
  }
  at::Tensor added(const at::Tensor& x_BLD, const at::Tensor& result_BLD) const {
    const at::Tensor more_BLD =
        is_training() ? dropout_rows(result_BLD, dropout_, tp_) : result_BLD;
    return residual_scale_ == 1.0 ? x_BLD + more_BLD : x_BLD + more_BLD * residual_scale_;
  }

  double residual_scale_, dropout_;
  SliceGroup tp_;
  std::shared_ptr<DecoderAttention> self_attn_;
  std::shared_ptr<FeedForward> feed_forward_;
  std::shared_ptr<Norm> before_attention_, behind_attention_;
  std::shared_ptr<Norm> before_feed_forward_, behind_feed_forward_;
};

}  // namespace

ops::Activation kernel_of(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return ops::Activation::kSilu;
    case Activation::kGelu:
      return ops::Activation::kGelu;
    case Activation::kGeluTanh:
      return ops::Activation::kGeluTanh;
    case Activation::kRelu:
      break;
  }
  return ops::Activation::kRelu;
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kRelu:
      break;
  }
  return at::relu(x);
}

std::shared_ptr<FeedForward> make_gated_mlp(const DecoderConfig& config, std::int64_t width,
                                            const LayerOptions& options) {
  return std::make_shared<GatedMlp>(config, width, options);
}

std::shared_ptr<Norm> make_norm(const DecoderConfig& config, std::int64_t size,
                                const LayerOptions& options) {
  const auto rms = [&](RmsNorm::Scale scale) {
    return std::make_shared<RmsNorm>(size, config.norm_eps, options, scale);
  };
  switch (config.norm) {
    case NormKind::kRms:
      return rms(RmsNorm::Scale::kWeight);
    case NormKind::kWideRms:
      return rms(RmsNorm::Scale::kWideWeight);
    case NormKind::kRmsPlusOne:
      return rms(RmsNorm::Scale::kWideWeightAndOne);
    case NormKind::kLayer:
      break;
  }
  return std::make_shared<LayerNorm>(size, config.norm_eps, options);
}

std::vector<LayerSpec> make_decoder_layers(const DecoderConfig& config, const ModelSpec& model,
                                           const LayerOptions& options,
                                           const FeedForwardModule& feed_forward) {
  std::vector<std::shared_ptr<RotaryTable>> tables;
  for (const RopeConfig& rope : config.ropes)
    tables.push_back(std::make_shared<RotaryTable>(config.rotary_dim, rope));
  const auto inputs = std::make_shared<AttentionInputs>(std::move(tables));
  const double std = initializer_std(config.initializer_range);
  const double norm = config.norm == NormKind::kRmsPlusOne ? 0.0 : 1.0;
  const auto make_block = [=](std::int64_t layer) {
    return std::make_shared<DecoderLayer>(
        config, config.blocks.at(static_cast<std::size_t>(layer)), inputs, feed_forward.name,
        feed_forward.make ? feed_forward.make(layer)
                          : make_gated_mlp(config, config.intermediate_size, options),
        options);
  };
  return assemble_layers(
      model, options, {[=](const std::string&) { return std; }, config.padding_row, norm},
      [=] { return std::make_shared<DecoderEmbedding>(config, options); }, make_block,
      [=] { return make_norm(config, config.hidden_size, options); },
      {.hidden_size = config.hidden_size,
       .vocab_size = config.vocab_size,
       .logit_divisor = config.logit_divisor,
       .logit_cap = config.logit_cap});
}

}  // namespace sluice::detail
