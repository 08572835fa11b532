// LoRA: Hu et al., arXiv:2106.09685.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/causal_lm.h"

namespace sluice {

class AdaptableLinear : public torch::nn::Module {
 public:
  // Registers lora_A.weight [rank, in] and lora_B.weight [out, rank], float32.
  void adapt(const AdaptedLinear& layer, double scale, double dropout, c10::Device device);
  bool is_adapted() const { return a_.defined(); }

 protected:
  // y + scale * B A dropout(x) in the dtype of y, or y without an adapter.
  at::Tensor adapted(const at::Tensor& y, const at::Tensor& x) const;

 private:
  at::Tensor a_, b_;  // undefined without an adapter
  double scale_ = 1, dropout_ = 0;
};

namespace detail {

// Adds the LoRA adapters of options.adapter, initialized by draw_low_rank(). Throws Error(kUsage)
// if `model` has others.
void attach_adapter(const ModelSpec& model, const LayerOptions& options,
                    std::vector<LayerSpec>& layers);

}  // namespace detail
}  // namespace sluice
