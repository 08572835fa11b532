#include "layer/flop_counter.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string_view>

namespace sluice {
namespace {

struct Product {
  std::string_view name;
  std::size_t left, right;
  bool transposed;  // whether the right matrix is [columns, inner]
};
constexpr Product kCounted[] = {
    {"aten::mm", 0, 1, false},    {"aten::addmm", 1, 2, false},   {"aten::bmm", 0, 1, false},
    {"aten::mv", 0, 1, false},    {"aten::baddbmm", 1, 2, false}, {"aten::addmv", 1, 2, false},
    {"aten::linear", 0, 1, true},
};

bool is_attention(std::string_view name) {
  return name == "aten::scaled_dot_product_attention" ||
         name.starts_with("aten::_scaled_dot_product_");
}

thread_local FlopCounter* active = nullptr;

}  // namespace

// A counted operator while it runs. A convolution is counted at its end, from its output.
struct FlopCounter::Observed : at::ObserverContext {
  at::Tensor input, weight;
  bool transposed = false;
};

FlopCounter::FlopCounter(const std::vector<ParameterInfo>& parameters) {
  for (const ParameterInfo& parameter : parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    accumulators_.push_back(torch::autograd::impl::gradient_edge(parameter.tensor).function);
    weights_[accumulators_.back().get()] = parameter.tensor.numel();
  }
  active = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() {
  at::removeCallback(handle_);
  active = nullptr;
}

std::unique_ptr<at::ObserverContext> FlopCounter::begin(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const auto* const product =
      std::find_if(std::begin(kCounted), std::end(kCounted),
                   [&](const Product& candidate) { return candidate.name == name; });
  const bool is_product = product != std::end(kCounted),
             is_convolution = name == "aten::convolution";
  if (!is_product && !is_convolution && !is_attention(name)) return nullptr;
  auto observed = std::make_unique<Observed>();
  if (active->depth_++ > 0) return observed;
  const auto tensor = [&](std::size_t i) { return call.inputs()[i].toTensor(); };
  if (is_product) {
    const at::Tensor left = tensor(product->left), right = tensor(product->right);
    const std::int64_t columns =
        right.dim() == 1 ? 1 : right.size(product->transposed ? 0 : right.dim() - 1);
    active->add_product(left, right,
                        2.0 * static_cast<double>(left.numel()) * static_cast<double>(columns));
  } else if (is_convolution) {
    constexpr std::size_t kTransposed = 6;
    observed->input = tensor(0);
    observed->weight = tensor(1);
    observed->transposed = call.inputs()[kTransposed].toBool();
  } else {
    active->add_attention(tensor(0), tensor(1), tensor(2));
  }
  return observed;
}

void FlopCounter::end(const at::RecordFunction& call, at::ObserverContext* context) {
  if (!context) return;
  --active->depth_;
  const auto& observed = static_cast<const Observed&>(*context);
  if (!observed.input.defined()) return;
  const at::Tensor& spread =
      observed.transposed ? observed.input : call.outputs().front().toTensor();
  active->add_product(observed.input, observed.weight,
                      2.0 * static_cast<double>(spread.numel()) *
                          static_cast<double>(observed.weight.numel()) /
                          static_cast<double>(observed.weight.size(0)));
}

void FlopCounter::add_product(const at::Tensor& a, const at::Tensor& b, double flops) {
  counts_.forward += flops;
  for (const at::Tensor* operand : {&a, &b}) {
    if (!operand->requires_grad()) continue;
    (is_weight(*operand) ? counts_.weight : counts_.input) += flops;
  }
}

void FlopCounter::add_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const auto rows = static_cast<double>(q.numel()) / static_cast<double>(q.size(-1));
  const auto pairs = 2.0 * rows * static_cast<double>(k.size(-2));
  const double scores = pairs * static_cast<double>(q.size(-1));
  const double sums = pairs * static_cast<double>(v.size(-1));
  counts_.forward += scores + sums;
  if (q.requires_grad()) counts_.input += scores;
  if (k.requires_grad()) counts_.input += scores;
  if (v.requires_grad()) counts_.input += sums;
  if (q.requires_grad() || k.requires_grad())
    counts_.input += sums;  // attention's gradient of the probabilities
}

bool FlopCounter::is_weight(const at::Tensor& operand) const {
  const torch::autograd::Node* node = torch::autograd::impl::gradient_edge(operand).function.get();
  while (node) {
    const auto found = weights_.find(node);
    if (found != weights_.end()) return found->second == operand.numel();
    if (node->num_outputs() != 1) return false;
    node = node->next_edge(0).function.get();
  }
  return false;
}

}  // namespace sluice
