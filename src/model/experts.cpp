#include "model/experts.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace sluice {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Computes rows[index]. `back` lists each row's places in `index`, equally many per row. The
// backward sums in this fixed order, unlike atomic additions on a GPU.
class TakeRows : public torch::autograd::Function<TakeRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const at::Tensor& index, const at::Tensor& back) {
    context->save_for_backward({back});
    context->saved_data["rows"] = rows.size(0);
    return rows.index_select(0, index);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor back = context->get_saved_variables().front();
    const std::int64_t rows = context->saved_data["rows"].toInt();
    const at::Tensor taken = gradients.front().index_select(0, back);
    return {back.size(0) == rows ? taken : taken.view({rows, -1, taken.size(-1)}).sum(1), {}, {}};
  }
};

// Pairs (token, chosen expert), sorted by expert, then token.
struct Routes {
  at::Tensor token;
  at::Tensor place;
  at::Tensor choice;
  std::vector<std::int64_t> counts;  // pairs per expert

  Routes(const at::Tensor& experts_TK, std::int64_t num_experts) {
    const at::Tensor experts = experts_TK.flatten();
    choice = std::get<1>(experts.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false));
    place = at::empty_like(choice);
    place.scatter_(0, choice, at::arange(choice.size(0), choice.options()));
    token = choice.floor_divide(experts_TK.size(1));
    const at::Tensor host = at::bincount(experts, {}, num_experts).cpu();
    counts.assign(host.const_data_ptr<std::int64_t>(),
                  host.const_data_ptr<std::int64_t>() + num_experts);
  }
};

}  // namespace

GatedExpert::GatedExpert(const detail::ExpertsConfig& config, std::int64_t hidden_size,
                         const LayerOptions& options)
    : activation_(config.activation) {
  const std::int64_t d = hidden_size, f = config.intermediate_size;
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    return register_module(name, std::make_shared<Linear>(in, out, /*bias=*/false, options));
  };
  gate_ = linear(config.gate, d, f);
  up_ = linear(config.up, d, f);
  down_ = linear(config.down, f, d);
}

at::Tensor GatedExpert::forward(const at::Tensor& x_TD) const {
  const at::Tensor gate_TF = detail::activate(gate_->forward(x_TD), activation_);
  return down_->forward(gate_TF * up_->forward(x_TD));
}

Experts::Experts(const detail::ExpertsConfig& config, std::int64_t hidden_size,
                 const LayerOptions& options)
    : config_(config), tp_(SliceGroup::current()) {
  gate_ = register_module("gate", std::make_shared<Linear>(hidden_size, config.num_experts,
                                                           /*bias=*/false, options));
  const auto list = register_module("experts", std::make_shared<torch::nn::Module>("Experts"));
  for (std::int64_t i = 0; i < config.num_experts; ++i) {
    experts_.push_back(list->register_module(
        std::to_string(i), std::make_shared<GatedExpert>(config, hidden_size, options)));
  }
}

Experts::Output Experts::forward(const at::Tensor& own_BLD, const BatchPositions& batch) const {
  const bool divides_rows = tp_.sequence_parallel();
  const at::Tensor x_BLD = divides_rows ? gather_from(own_BLD, tp_, tp_.sequence_dim()) : own_BLD;
  const at::Tensor x_TD = x_BLD.flatten(0, 1);
  const at::Tensor logits_TE = gate_->forward(x_TD);
  auto [weights_TK, experts_TK] =
      at::softmax(logits_TE, -1, wide_type(logits_TE)).topk(config_.top_k, /*dim=*/-1);
  if (config_.normalizes) weights_TK = weights_TK / weights_TK.sum(-1, /*keepdim=*/true);
  if (!config_.wide_weights) weights_TK = weights_TK.to(logits_TE.scalar_type());

  const Routes routes(experts_TK, config_.num_experts);
  std::vector<at::Tensor> results =
      TakeRows::apply(x_TD, routes.token, routes.place).split_with_sizes(routes.counts);
  for (std::size_t i = 0; i < results.size(); ++i) results[i] = experts_[i]->forward(results[i]);
  at::Tensor sorted = at::cat(results);
  results.clear();
  const at::Tensor chosen_TKD =
      TakeRows::apply(std::exchange(sorted, {}), routes.place, routes.choice)
          .unflatten(0, experts_TK.sizes());
  const at::Tensor sum_TD = (chosen_TKD * weights_TK.unsqueeze(-1)).sum(1);

  const at::Tensor sum_BLD = sum_TD.to(x_BLD.scalar_type()).view_as(x_BLD);
  Output output{divides_rows ? scatter_to(sum_BLD, tp_, tp_.sequence_dim()) : sum_BLD};
  if (config_.balance_coefficient) {
    output.written.push_back(load_balancing_loss(logits_TE, config_.top_k, batch.attention_mask));
  }
  return output;
}

at::Tensor load_balancing_loss(const at::Tensor& logits_TE, std::int64_t top_k,
                               const at::Tensor& mask_BL) {
  const std::int64_t num_experts = logits_TE.size(1);
  const at::Tensor probabilities_TE = at::softmax(logits_TE, -1);
  const at::Tensor experts_TK = std::get<1>(probabilities_TE.detach().topk(top_k, /*dim=*/-1));
  const at::Tensor wide_TE = probabilities_TE.to(at::kFloat);
  if (!mask_BL.defined()) {
    const auto tokens = static_cast<double>(logits_TE.size(0));
    const at::Tensor counts_E = at::bincount(experts_TK.flatten(), {}, num_experts).to(at::kFloat);
    const at::Tensor shares_E = counts_E * (static_cast<double>(num_experts) / (tokens * tokens));
    return (shares_E * wide_TE.sum(0)).sum();
  }
  const at::Tensor mask_T = mask_BL.to(logits_TE.device(), at::kFloat).flatten();
  const at::Tensor tokens = mask_T.sum().clamp_min(1);
  const at::Tensor counts_E =
      at::zeros({num_experts}, mask_T.options())
          .scatter_add(0, experts_TK.flatten(), mask_T.repeat_interleave(top_k));
  const at::Tensor shares_E = counts_E * static_cast<double>(num_experts) / (tokens * tokens);
  return (shares_E * (wide_TE * mask_T.unsqueeze(-1)).sum(0)).sum();
}

}  // namespace sluice
