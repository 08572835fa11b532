// StarCoder2: Lozhkov et al., arXiv:2402.19173. Shapes: modules.h.
#include "family/starcoder2.h"

#include <memory>

#include "family/decoder_model.h"
#include "model/decoder_layer.h"
#include "model/families.h"
#include "ops/feed_forward_block.h"
#include "parallel/divided_operators.h"

namespace sluice::detail {
namespace {

class Starcoder2Mlp : public FeedForward {
 public:
  Starcoder2Mlp(const DecoderConfig& config, const LayerOptions& options)
      : activation_(config.activation),
        tp_(SliceGroup::current()),
        fused_(options.fused && fuses_feed_forward(config)),
        width_(config.intermediate_size) {
    const std::int64_t d = config.hidden_size, f = config.intermediate_size;
    c_fc_ = register_module("c_fc", std::make_shared<Linear>(d, f, config.mlp_bias, options,
                                                             Division{Division::How::kColumns}));
    c_proj_ = register_module("c_proj", std::make_shared<Linear>(f, d, config.mlp_bias, options,
                                                                 Division{Division::How::kRows}));
  }

  at::Tensor fused(const at::Tensor& x_BLD, const ops::NormWeights& before,
                   const ops::NormWeights& behind, double residual_scale) const override {
    if (!fused_ || !supports_fused(x_BLD)) return {};
    return ops::feed_forward_block(x_BLD,
                                   {.half = {.before = before,
                                             .projections = {c_fc_->weights()},
                                             .last = c_proj_->weights(),
                                             .behind = behind,
                                             .residual_scale = static_cast<float>(residual_scale),
                                             .slices = tp_},
                                    .is_gated = false,
                                    .activation = kernel_of(activation_),
                                    .width = width_});
  }

  Output forward(const at::Tensor& x_BLD, const BatchPositions& /*batch*/) const override {
    if (tp_.slices().count == 1)
      return {c_proj_->forward(activate(c_fc_->forward(x_BLD), activation_))};
    std::vector<at::Tensor> parts = c_fc_->columns(detail::enter(x_BLD, tp_));
    for (at::Tensor& of_slice : parts) of_slice = activate(of_slice, activation_);
    return {c_proj_->rows(parts)};
  }

 private:
  Activation activation_;
  SliceGroup tp_;
  bool fused_;
  std::int64_t width_;
  std::shared_ptr<Linear> c_fc_, c_proj_;
};

}  // namespace

std::vector<LayerSpec> make_starcoder2_layers(const ModelSpec& model, const LayerOptions& options) {
  const DecoderConfig config = config_of(model, read_starcoder2_config);
  return make_decoder_layers(config, model, options, {.make = [=](std::int64_t) {
                               return std::make_shared<Starcoder2Mlp>(config, options);
                             }});
}

}  // namespace sluice::detail
