// Mixture of experts: Shazeer et al., "Outrageously Large Neural Networks", arXiv:1701.06538; its
// load balancing loss after Fedus et al., "Switch Transformers", arXiv:2101.03961, section 2.2.
//
// Owns: router, experts, the assignment of tokens to experts.
// Does not own: settings (family/experts.h), blocks around it.
//
// Invariants:
//  1. Every expert sees its tokens in their order, and a token adds up its experts by falling
//     probability: the same bits on every device and in every layout.
//  2. An expert without tokens has gradients of zeros, so that an optimizer decays it as it does
//     the others.
//  3. Where ranks share the slices of a layer, each computes router and experts whole, on all rows:
//     their gradients are the same on every rank, and no sums.
// Legend of shapes: modules.h, and T tokens (B * L)   E experts   K experts of a token.
// Thread-safety: a module belongs to one thread.
#pragma once

#include <memory>
#include <vector>

#include "family/experts.h"
#include "model/decoder_layer.h"
#include "model/modules.h"

namespace sluice {

class GatedExpert : public torch::nn::Module {
 public:
  GatedExpert(const detail::ExpertsConfig& config, std::int64_t hidden_size,
              const LayerOptions& options);
  at::Tensor forward(const at::Tensor& x_TD) const;

 private:
  detail::Activation activation_;
  std::shared_ptr<Linear> gate_, up_, down_;
};

class Experts : public detail::FeedForward {
 public:
  Experts(const detail::ExpertsConfig& config, std::int64_t hidden_size,
          const LayerOptions& options);

  // Writes the load balancing loss where the configuration asks for it; of the batch it reads the
  // attention mask.
  Output forward(const at::Tensor& own_BLD, const BatchPositions& batch) const override;

 private:
  detail::ExpertsConfig config_;
  SliceGroup tp_;
  std::shared_ptr<Linear> gate_;
  std::vector<std::shared_ptr<GatedExpert>> experts_;
};

// E times the sum over the experts of the share of choices that fell on it (of K a token) times its
// mean probability; tokens with mask 0 are left out, and without any the loss is 0.
at::Tensor load_balancing_loss(const at::Tensor& logits_TE, std::int64_t top_k,
                               const at::Tensor& mask_BL = {});

}  // namespace sluice
