// Mixture of experts: Shazeer et al., arXiv:1701.06538. Load balancing loss: Fedus et al.,
// arXiv:2101.03961, section 2.2.
//
// Invariants:
// 1. Each expert processes its tokens in order, and a token sums its experts' outputs by falling
//    probability. Results are bitwise equal on every device and in every layout.
// 2. An expert without tokens has zero gradients, so that its weights still decay.
// 3. Each tensor-parallel slice computes the router and the experts on its own rows of the
//    sequence. The weights are whole on every rank, and their gradients are summed over the slices
//    once a step.
// 4. Expert-parallel ranks each compute the tokens of their experts, from all ranks that share the
//    layer's experts. An expert sees the tokens of one microbatch of each, by rank, then by token.
// Shapes: modules.h, and T tokens, E experts, K experts per token.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "family/experts.h"
#include "model/decoder_layer.h"
#include "model/modules.h"
#include "parallel/expert_group.h"

namespace sluice {

class GatedExpert : public torch::nn::Module {
 public:
  GatedExpert(const detail::ExpertsConfig& config, std::int64_t hidden_size,
              const LayerOptions& options);
  // slice: index among the tensor-parallel slices of this rank
  at::Tensor forward(const at::Tensor& x_TD, std::size_t slice = 0) const;

 private:
  detail::Activation activation_;
  std::shared_ptr<SharedLinear> gate_, up_, down_;
};

// With expert parallelism, a rank has only some of the experts (parallel/expert_group.h).
class Experts : public detail::FeedForward, public SlicedModule {
 public:
  Experts(const detail::ExpertsConfig& config, std::int64_t hidden_size,
          const LayerOptions& options);

  Output forward(const at::Tensor& given_BLD, const BatchPositions& batch) const override;
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

 private:
  at::Tensor of_slice(const at::Tensor& x_TD, const at::Tensor& logits_TE, std::size_t slice) const;

  detail::ExpertsConfig config_;
  SliceGroup tp_;
  detail::ExpertGroup ep_;
  std::shared_ptr<SharedLinear> gate_;
  std::vector<std::shared_ptr<GatedExpert>> experts_;  // of this rank
};

// E times the sum over experts of (share of choices * mean probability), over the tokens [B, L] of
// all tensor-parallel slices. Tokens with mask 0 do not count. logits: of each slice of this rank.
at::Tensor load_balancing_loss(const std::vector<at::Tensor>& logits_TE, std::int64_t top_k,
                               std::int64_t num_tokens, const at::Tensor& mask_BL = {},
                               const SliceGroup& tp = {});

}  // namespace sluice
