#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "model/modules.h"

namespace sluice {

struct HeadConfig {
  std::int64_t hidden_size = 0, vocab_size = 0;
  double logit_divisor = 1.0;
  std::optional<double> logit_cap = {};  // cap * tanh(logit / cap)
  bool loss_by_blocks = false;
};

class Head : public Linear {
 public:
  Head(const HeadConfig& config, const LayerOptions& options);
  // With tensor parallelism, every rank returns the whole vocabulary.
  at::Tensor forward(const at::Tensor& x_BLD) const;

 protected:
  bool is_sliced() const { return tp_.slices().count > 1; }
  std::vector<at::Tensor> logits_of_slices(const at::Tensor& x_BLD) const;
  at::Tensor scaled(at::Tensor logits_BLV) const;

  HeadConfig config_;
  SliceGroup tp_;
  bool fused_;
};

// The sum of the next-token losses, or logits without labels. Tensor-parallel ranks divide the
// vocabulary.
class LossHead : public Head {
 public:
  using Head::Head;
  at::Tensor forward(const at::Tensor& x_BLD, const at::Tensor& labels_BL) const;
};

}  // namespace sluice
