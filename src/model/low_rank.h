// Adapters of linear layers: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models",
// arXiv:2106.09685.
//
// Owns: what an adapter adds to a layer, giving adapters to the layers of a model, their initial
// values. Does not own: which layers have one (lora.h), reading tensors (src/io).
// Thread-safety: a module belongs to one thread; pure functions otherwise.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/causal_lm.h"

namespace sluice {

// The base of modules that compute y = W x: PEFT has adapters of nn.Linear and Conv1D.
class AdaptableLinear : public torch::nn::Module {
 public:
  // Registers lora_A.weight [rank, in] and lora_B.weight [out, rank], float32.
  void adapt(const AdaptedLinear& layer, double scale, double dropout, c10::Device device);
  bool is_adapted() const { return a_.defined(); }

 protected:
  // y + scale * B A dropout(x), in the type of y; y without an adapter.
  at::Tensor adapted(const at::Tensor& y, const at::Tensor& x) const;

 private:
  at::Tensor a_, b_;  // undefined: there is none
  double scale_ = 1, dropout_ = 0;
};

namespace detail {

// The layers' modules come with the adapters of options.adapter, which are drawn as
// draw_low_rank() does. Throws Error(kUsage) unless these are those of `model`.
void attach_adapter(const ModelSpec& model, const LayerOptions& options,
                    std::vector<LayerSpec>& layers);

}  // namespace detail
}  // namespace sluice
