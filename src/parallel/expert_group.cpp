#include "parallel/expert_group.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <utility>

#include "layer/call_place.h"
#include "parallel/held_group.h"

namespace sluice::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Exchange = c10::intrusive_ptr<ExpertExchange>;

constexpr const char* kAxisOfExperts = "ep";

thread_local const ExpertGroup* current_experts = nullptr;

void keep_exchange(AutogradContext* context, const Exchange& exchange) {
  context->saved_data["exchange"] = c10::IValue::make_capsule(exchange);
}

ExpertExchange& kept_exchange(AutogradContext* context) {
  require_one_derivative();
  auto& exchange = static_cast<ExpertExchange&>(*context->saved_data["exchange"].toCapsule());
  exchange.set_backward();
  return exchange;
}

struct Dispatch : torch::autograd::Function<Dispatch> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const Exchange& exchange) {
    keep_exchange(context, exchange);
    return exchange->to_experts(rows);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {kept_exchange(context).to_sources(gradients[0]), {}};
  }
};

struct Combine : torch::autograd::Function<Combine> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& results,
                            const Exchange& exchange) {
    keep_exchange(context, exchange);
    return exchange->to_sources(results);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {kept_exchange(context).to_experts(gradients[0]), {}};
  }
};

}  // namespace

ExpertGroup ExpertGroup::current() { return current_experts ? *current_experts : ExpertGroup(); }

IndexRange ExpertGroup::own(std::int64_t num_experts) const {
  const std::int64_t each = num_experts / degree();
  return {(group_ ? group_.rank() : 0) * each, each};
}

ExpertGroupScope::ExpertGroupScope(const ExpertGroup& experts)
    : outer_(std::exchange(current_experts, &experts)) {}

ExpertGroupScope::~ExpertGroupScope() { current_experts = outer_; }

ExpertExchange::ExpertExchange(ExpertGroup experts, const std::vector<std::int64_t>& counts)
    : experts_(std::move(experts)), counts_(counts), forward_place_(numbered_place()) {
  const auto each = static_cast<std::ptrdiff_t>(counts_.size()) / experts_.degree();
  for (auto first = counts_.begin(); first != counts_.end(); first += each)
    sent_.push_back(std::accumulate(first, first + each, std::int64_t{0}));
}

void ExpertExchange::set_backward() { backward_of_ = forward_place_; }

at::Tensor ExpertExchange::dispatch(const Exchange& exchange, const at::Tensor& rows) {
  return Dispatch::apply(rows, exchange);
}

at::Tensor ExpertExchange::combine(const Exchange& exchange, const at::Tensor& results) {
  return Combine::apply(results, exchange);
}

std::vector<std::int64_t> ExpertExchange::own_counts() const {
  std::vector<std::int64_t> counts(received_.front().size());
  for (const std::vector<std::int64_t>& of_source : received_) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += of_source[i];
  }
  return counts;
}

// The first exchange also sends the counts. Both are posted before either is waited for.
at::Tensor ExpertExchange::to_experts(const at::Tensor& rows) {
  const AxisPlace place(kAxisOfExperts, backward_of_);
  const Group& group = experts_.group();
  std::vector<Work<std::vector<at::Tensor>>> counts;
  if (received_.empty()) {
    const auto each = static_cast<std::int64_t>(counts_.size()) / experts_.degree();
    counts.push_back(group.all_to_all(at::tensor(counts_, at::kLong).split(each)));
  }
  Work<std::vector<at::Tensor>> posted =
      group.all_to_all(rows.contiguous().split_with_sizes(sent_));
  for (Work<std::vector<at::Tensor>>& work : counts) receive_counts(work.wait());
  const std::vector<at::Tensor> of_sources = posted.wait();

  std::vector<std::vector<at::Tensor>> by_source;
  for (std::size_t source = 0; source < received_.size(); ++source)
    by_source.push_back(of_sources[source].split_with_sizes(received_[source]));
  std::vector<at::Tensor> sorted;
  for (std::size_t expert = 0; expert < received_.front().size(); ++expert) {
    for (const std::vector<at::Tensor>& of_source : by_source) sorted.push_back(of_source[expert]);
  }
  return at::cat(sorted);
}

at::Tensor ExpertExchange::to_sources(const at::Tensor& rows) const {
  const AxisPlace place(kAxisOfExperts, backward_of_);
  std::vector<std::int64_t> sizes;
  for (std::size_t expert = 0; expert < received_.front().size(); ++expert) {
    for (const std::vector<std::int64_t>& of_source : received_) sizes.push_back(of_source[expert]);
  }
  const std::vector<at::Tensor> sorted = rows.split_with_sizes(sizes);
  std::vector<at::Tensor> pieces;
  for (std::size_t source = 0; source < received_.size(); ++source) {
    std::vector<at::Tensor> of_source;
    for (std::size_t i = source; i < sorted.size(); i += received_.size())
      of_source.push_back(sorted[i]);
    pieces.push_back(at::cat(of_source));
  }
  return at::cat(experts_.group().all_to_all(std::move(pieces)).wait());
}

void ExpertExchange::receive_counts(const std::vector<at::Tensor>& counts) {
  for (const at::Tensor& of_source : counts) {
    const at::Tensor host = of_source.cpu().contiguous();
    received_.emplace_back(host.const_data_ptr<std::int64_t>(),
                           host.const_data_ptr<std::int64_t>() + host.numel());
  }
}

}  // namespace sluice::detail
