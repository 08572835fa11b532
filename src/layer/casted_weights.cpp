#include "layer/casted_weights.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "layer/autocast.h"
#include "layer/autograd_node.h"
#include "layer/interception_key.h"
#include "layer/operator_reader.h"
#include "layer/storage_memory.h"

namespace sluice {
namespace {

// Operators that autocast runs in the lower type on CPU and CUDA, and that have weights.
constexpr std::array kProducts = {"aten::linear",
                                  "aten::addmm",
                                  "aten::mm",
                                  "aten::matmul",
                                  "aten::bmm",
                                  "aten::baddbmm",
                                  "aten::addbmm",
                                  "aten::conv1d",
                                  "aten::conv2d",
                                  "aten::conv3d",
                                  "aten::conv_transpose1d",
                                  "aten::conv_transpose2d.input",
                                  "aten::conv_transpose3d.input",
                                  "aten::conv_tbc"};

thread_local CastedWeights* current_copies = nullptr;

class CastedWeight : public torch::autograd::Node {
 public:
  CastedWeight(torch::autograd::edge_list edges, at::ScalarType type)
      : Node(std::move(edges)), type_(type) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (!gradients[0].defined()) return {at::Tensor()};
    return {gradients[0].to(type_)};
  }

 private:
  const at::ScalarType type_;
};

// Recognizes the transposed weight that torch::nn::Linear passes.
bool is_transpose_of(const at::Tensor& view, const at::Tensor& weight) {
  return weight.dim() == 2 && view.dim() == 2 && view.storage_offset() == weight.storage_offset() &&
         view.size(0) == weight.size(1) && view.size(1) == weight.size(0) &&
         view.stride(0) == weight.stride(1) && view.stride(1) == weight.stride(0);
}

std::optional<at::ScalarType> lower_type(const at::Tensor& tensor) {
  const c10::DeviceType device = tensor.device().type();
  if (std::find(kAutocastDevices.begin(), kAutocastDevices.end(), device) == kAutocastDevices.end())
    return std::nullopt;
  if (!at::autocast::is_autocast_enabled(device)) return std::nullopt;
  const at::ScalarType type = at::autocast::get_autocast_dtype(device);
  const bool is_cast = tensor.is_floating_point() && tensor.scalar_type() != at::kDouble &&
                       tensor.scalar_type() != type;
  return is_cast ? std::optional(type) : std::nullopt;
}

// Returns the casted copy of a weight or transposed weight. Returns other tensors unchanged.
at::Tensor copy_of(const at::Tensor& tensor, CastedWeights& weights) {
  if (!tensor.defined()) return tensor;
  const bool is_weight = weights.has(tensor);
  const at::Tensor weight = !is_weight && tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
  if (!weights.has(weight)) return tensor;
  const std::optional<at::ScalarType> type = lower_type(tensor);
  if (!type) return tensor;
  if (is_weight) return weights.cast(weight, *type);
  if (!is_transpose_of(tensor, weight)) return tensor;
  const at::Tensor copy = weights.cast(weight, *type).t();
  return tensor.grad_fn() ? copy : copy.detach();  // without a graph, the gradient stops here
}

void take_copies(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  if (try_reader(op, *stack)) return;
  if (current_copies) {
    const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
    for (auto value = stack->end() - count; value != stack->end(); ++value) {
      if (value->isTensor()) *value = copy_of(value->toTensor(), *current_copies);
    }
  }
  op.redispatchBoxed(keys & kBelowInterception, stack);
}

void intercept_products() {
  // Never freed, because other threads may run an operator while the process ends.
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "aten", kInterceptionKey, __FILE__, __LINE__);
  for (const char* name : kProducts)
    library->impl(name, torch::CppFunction::makeFromBoxedFunction<&take_copies>());
}

bool is_under_autocast() {
  for (const at::DeviceType device : kAutocastDevices) {
    if (at::autocast::is_autocast_enabled(device)) return true;
  }
  return false;
}

}  // namespace

CastedWeights::CastedWeights() {
  // Intercept when the first chunk is made, before ranks run operators concurrently.
  static std::once_flag intercepted;
  std::call_once(intercepted, intercept_products);
}

void CastedWeights::add(const at::Tensor& weight) {
  copies_[weight.unsafeGetTensorImpl()].weight = weight;
}

bool CastedWeights::has(const at::Tensor& weight) const {
  return copies_.contains(weight.unsafeGetTensorImpl());
}

at::Tensor CastedWeights::cast(const at::Tensor& weight, at::ScalarType type) {
  Copy& copy = copies_.at(weight.unsafeGetTensorImpl());
  const auto version =
      weight.is_inference() ? std::int64_t{0} : static_cast<std::int64_t>(weight._version());
  const bool is_current = copy.value.defined() && copy.value.scalar_type() == type &&
                          copy.data == weight.const_data_ptr() && copy.version == version;
  if (!is_current) {
    const c10::InferenceMode graphs_may_save_it(false);
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard no_interception(kInterceptionKey);
    copy.value = weight.detach().to(type);
    copy.version = version;
    copy.data = weight.const_data_ptr();
  }
  at::Tensor result = copy.value.detach();
  if (at::GradMode::is_enabled() && weight.requires_grad()) {
    auto node = make_node<CastedWeight>(
        torch::autograd::edge_list{torch::autograd::impl::gradient_edge(weight)},
        weight.scalar_type());
    const std::uint32_t number = node->add_input_metadata(result);
    torch::autograd::impl::set_gradient_edge(result,
                                             torch::autograd::Edge(std::move(node), number));
  }
  return result;
}

void CastedWeights::clear() {
  for (auto& [impl, copy] : copies_) copy.value.reset();
  is_empty_ = false;
}

void CastedWeights::empty() {
  for (auto& [impl, copy] : copies_) {
    if (copy.value.defined()) resize_memory(copy.value, 0);
  }
  is_empty_ = true;
}

void CastedWeights::fill() {
  if (!is_empty_) return;
  const c10::InferenceMode graphs_may_save_it(false);
  const at::NoGradGuard no_grad;
  for (auto& [impl, copy] : copies_) {
    if (!copy.value.defined()) continue;
    take_memory(copy.value);
    // variable_data() has a separate version counter, so graphs that saved the copy stay valid.
    copy.value.variable_data().copy_(copy.weight.detach());
    copy.data = copy.weight.const_data_ptr();
  }
  is_empty_ = false;
}

std::int64_t CastedWeights::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [impl, copy] : copies_) {
    if (copy.value.defined()) bytes += static_cast<std::int64_t>(copy.value.storage().nbytes());
  }
  return bytes;
}

CastedWeightsScope::CastedWeightsScope(CastedWeights& weights)
    : outer_(std::exchange(current_copies, is_under_autocast() ? &weights : nullptr)) {}

CastedWeightsScope::~CastedWeightsScope() { current_copies = outer_; }

}  // namespace sluice
