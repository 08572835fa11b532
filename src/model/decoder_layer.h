#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "family/decoder_config.h"
#include "model/attention_inputs.h"
#include "model/modules.h"
#include "ops/kernels/kernels.h"
#include "sluice/causal_lm.h"

namespace sluice::detail {

// The part of a decoder block after attention: [B, L, D] -> [B, L, D].
class FeedForward : public torch::nn::Module {
 public:
  struct Output {
    at::Tensor hidden_BLD;
    std::vector<at::Tensor> written = {};  // the block's other outputs: load balancing losses
  };
  virtual Output forward(const at::Tensor& x_BLD, const BatchPositions& batch) const = 0;
  // Returns x + residual_scale * behind(this(before(x))), computed by one autograd node, or an
  // undefined tensor if that is impossible.
  virtual at::Tensor fused(const at::Tensor& /*x_BLD*/, const ops::NormWeights& /*before*/,
                           const ops::NormWeights& /*behind*/, double /*residual_scale*/) const {
    return {};
  }
};

// down(activation(gate(x)) * up(x))
std::shared_ptr<FeedForward> make_gated_mlp(const DecoderConfig& config, std::int64_t width,
                                            const LayerOptions& options);
at::Tensor activate(const at::Tensor& x, Activation activation);
ops::Activation kernel_of(Activation activation);

std::shared_ptr<Norm> make_norm(const DecoderConfig& config, std::int64_t size,
                                const LayerOptions& options);

struct FeedForwardModule {
  std::string name = "mlp";
  // default: make_gated_mlp()
  std::function<std::shared_ptr<FeedForward>(std::int64_t layer)> make;
};

std::vector<LayerSpec> make_decoder_layers(const DecoderConfig& config, const ModelSpec& model,
                                           const LayerOptions& options,
                                           const FeedForwardModule& feed_forward = {});

}  // namespace sluice::detail
