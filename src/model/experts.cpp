#include "model/experts.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/format.h"
#include "sluice/error.h"

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
    return register_module(name, std::make_shared<SharedLinear>(in, out, options));
  };
  gate_ = linear(config.gate, d, f);
  up_ = linear(config.up, d, f);
  down_ = linear(config.down, f, d);
}

at::Tensor GatedExpert::forward(const at::Tensor& x_TD, std::size_t slice) const {
  const at::Tensor gate_TF = detail::activate(gate_->forward(x_TD, slice), activation_);
  return down_->forward(gate_TF * up_->forward(x_TD, slice), slice);
}

Experts::Experts(const detail::ExpertsConfig& config, std::int64_t hidden_size,
                 const LayerOptions& options)
    : config_(config), tp_(SliceGroup::current()), ep_(detail::ExpertGroup::current()) {
  gate_ = register_module("gate",
                          std::make_shared<SharedLinear>(hidden_size, config.num_experts, options));
  const auto list = register_module("experts", std::make_shared<torch::nn::Module>("Experts"));
  if (config.num_experts % ep_.degree() != 0) {
    throw Error(ErrorKind::kUsage, {.what = formatted("{} ranks cannot share {} experts",
                                                      ep_.degree(), config.num_experts),
                                    .where = "`expert_parallel.degree`",
                                    .remedy = "give a divisor of the experts"});
  }
  const IndexRange own = ep_.own(config.num_experts);
  for (std::int64_t i = own.offset; i < own.offset + own.size; ++i) {
    experts_.push_back(list->register_module(
        std::to_string(i), std::make_shared<GatedExpert>(config, hidden_size, options)));
  }
}

std::vector<std::pair<std::string, ParameterSlices>> Experts::slices() const {
  std::vector<std::pair<std::string, ParameterSlices>> of_experts;
  if (ep_.degree() == 1) return of_experts;
  for (const auto& item : named_parameters()) {
    if (item.key().starts_with("experts."))
      of_experts.push_back(
          {item.key(), {.global_shape = item.value().sizes().vec(), .of_expert = true}});
  }
  return of_experts;
}

Experts::Output Experts::forward(const at::Tensor& given_BLD, const BatchPositions& batch) const {
  const bool divides_rows = tp_.sequence_parallel();
  const std::int64_t length = whole_length(given_BLD, tp_), dim = tp_.sequence_dim();
  const at::Tensor x_BLD = divides_rows ? given_BLD : scatter_to(given_BLD, tp_, dim);
  std::vector<at::Tensor> results_BLD, logits_TE;
  for (const at::Tensor& rows_BLD : own_slices(x_BLD, length, tp_, dim)) {
    const std::size_t slice = results_BLD.size();
    const at::Tensor x_TD = rows_BLD.flatten(0, 1);
    logits_TE.push_back(gate_->forward(x_TD, slice));
    results_BLD.push_back(of_slice(x_TD, logits_TE.back(), slice).view_as(rows_BLD));
  }
  const at::Tensor own_BLD = results_BLD.size() == 1 ? results_BLD[0] : at::cat(results_BLD, dim);
  Output output{divides_rows ? own_BLD : gather_from(own_BLD, tp_, dim)};
  if (config_.balance_coefficient) {
    output.written.push_back(load_balancing_loss(
        logits_TE, config_.top_k, given_BLD.size(0) * length, batch.attention_mask, tp_));
  }
  return output;
}

at::Tensor Experts::of_slice(const at::Tensor& x_TD, const at::Tensor& logits_TE,
                             std::size_t slice) const {
  auto [weights_TK, experts_TK] =
      at::softmax(logits_TE, -1, wide_type(logits_TE)).topk(config_.top_k, /*dim=*/-1);
  if (config_.normalizes) weights_TK = weights_TK / weights_TK.sum(-1, /*keepdim=*/true);
  if (!config_.wide_weights) weights_TK = weights_TK.to(logits_TE.scalar_type());

  const Routes routes(experts_TK, config_.num_experts);
  at::Tensor rows = TakeRows::apply(x_TD, routes.token, routes.place);
  c10::intrusive_ptr<detail::ExpertExchange> exchange;
  if (ep_.degree() > 1) {
    exchange = c10::make_intrusive<detail::ExpertExchange>(ep_, routes.counts);
    rows = detail::ExpertExchange::dispatch(exchange, rows);
  }
  std::vector<at::Tensor> results =
      std::exchange(rows, {}).split_with_sizes(exchange ? exchange->own_counts() : routes.counts);
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = experts_[i]->forward(results[i], slice);
  at::Tensor sorted = at::cat(results);
  results.clear();
  if (exchange) sorted = detail::ExpertExchange::combine(exchange, sorted);
  const at::Tensor chosen_TKD =
      TakeRows::apply(std::exchange(sorted, {}), routes.place, routes.choice)
          .unflatten(0, experts_TK.sizes());
  const at::Tensor sum_TD = (chosen_TKD * weights_TK.unsqueeze(-1)).sum(1);
  return sum_TD.to(x_TD.scalar_type());
}

namespace {

// Sums over the tokens of one slice: how often each expert is chosen, and its probabilities.
struct BalanceSums {
  at::Tensor choices_E, probabilities_E;
};

BalanceSums balance_sums(const at::Tensor& logits_TE, std::int64_t top_k,
                         const at::Tensor& mask_T) {
  const std::int64_t num_experts = logits_TE.size(1);
  const at::Tensor probabilities_TE = at::softmax(logits_TE, -1);
  const at::Tensor experts_TK = std::get<1>(probabilities_TE.detach().topk(top_k, /*dim=*/-1));
  const at::Tensor wide_TE = probabilities_TE.to(at::kFloat);
  if (!mask_T.defined()) {
    return {at::bincount(experts_TK.flatten(), {}, num_experts).to(at::kFloat), wide_TE.sum(0)};
  }
  return {at::zeros({num_experts}, mask_T.options())
              .scatter_add(0, experts_TK.flatten(), mask_T.repeat_interleave(top_k)),
          (wide_TE * mask_T.unsqueeze(-1)).sum(0)};
}

}  // namespace

at::Tensor load_balancing_loss(const std::vector<at::Tensor>& logits_TE, std::int64_t top_k,
                               std::int64_t num_tokens, const at::Tensor& mask_BL,
                               const SliceGroup& tp) {
  at::Tensor mask;
  std::vector<at::Tensor> masks_BL(logits_TE.size());
  if (mask_BL.defined()) {
    mask = mask_BL.to(logits_TE.front().device(), at::kFloat);
    const IndexRange own = tp.range(mask.size(1));
    masks_BL = own_slices(mask.narrow(1, own.offset, own.size), mask.size(1), tp, 1);
  }
  std::vector<at::Tensor> sums_2E;
  BalanceSums all;
  for (std::size_t i = 0; i < logits_TE.size(); ++i) {
    all = balance_sums(logits_TE[i], top_k, mask.defined() ? masks_BL[i].flatten() : at::Tensor());
    if (tp.slices().count > 1) sums_2E.push_back(at::stack({all.choices_E, all.probabilities_E}));
  }
  if (tp.slices().count > 1) {
    const at::Tensor sum_2E = reduce_from(sums_2E, tp);
    all = {sum_2E[0].detach(), sum_2E[1]};
  }
  const auto num_experts = static_cast<double>(logits_TE.front().size(1));
  if (!mask.defined()) {
    const auto tokens = static_cast<double>(num_tokens);
    return (all.choices_E * (num_experts / (tokens * tokens)) * all.probabilities_E).sum();
  }
  const at::Tensor tokens = mask.sum().clamp_min(1);
  return (all.choices_E * num_experts / (tokens * tokens) * all.probabilities_E).sum();
}

}  // namespace sluice
