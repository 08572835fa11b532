#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "base/nearest_name.h"
#include "base/words.h"
#include "ops/kernels/kernels.h"
#include "ops/named.h"
#include "sluice/parts/ops.h"

namespace sluice {
namespace {

using ops::Activation;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const detail::Words<Activation>& activations() {
  static const detail::Words<Activation> table = {{"silu", Activation::kSilu},
                                                  {"gelu", Activation::kGelu},
                                                  {"gelu_tanh", Activation::kGeluTanh},
                                                  {"relu", Activation::kRelu}};
  return table;
}

at::Tensor by_operators(Activation activation, const at::Tensor& gate, const at::Tensor& up) {
  switch (activation) {
    case Activation::kSilu:
      return at::silu(gate) * up;
    case Activation::kGelu:
      return at::gelu(gate) * up;
    case Activation::kGeluTanh:
      return at::gelu(gate, "tanh") * up;
    case Activation::kRelu:
      return at::relu(gate) * up;
  }
  return {};
}

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* context, std::int64_t activation,
                            const at::Tensor& gate_in, const at::Tensor& up_in) {
    const at::Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    const at::Tensor y = at::empty_like(gate);
    ops::kernels().gated(static_cast<Activation>(activation), 1, gate.numel(),
                         gate.const_data_ptr<float>(), up.const_data_ptr<float>(), gate.numel(),
                         y.mutable_data_ptr<float>());
    context->save_for_backward({gate_in, up_in});
    context->saved_data["activation"] = activation;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    if (at::GradMode::is_enabled()) {
      const auto found =
          ops::differentiable_gradients(saved, gradients[0], [&](const variable_list& inputs) {
            return by_operators(activation, inputs[0], inputs[1]);
          });
      return {{}, found[0], found[1]};
    }
    // The kernel overwrites gate and up with their gradients.
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor gate = saved[0].clone(at::MemoryFormat::Contiguous),
                     up = saved[1].clone(at::MemoryFormat::Contiguous);
    ops::kernels().gated_gradient(activation, 1, gate.numel(), gate.mutable_data_ptr<float>(),
                                  up.mutable_data_ptr<float>(), gate.numel(),
                                  dy.const_data_ptr<float>());
    return {{}, gate, up};
  }
};

}  // namespace

at::Tensor fused_gated(std::string_view activation, const at::Tensor& gate, const at::Tensor& up) {
  const std::vector<std::string> words = detail::words_in(activations());
  const std::string word(activation);
  if (std::find(words.begin(), words.end(), word) == words.end())
    ops::refuse("fused_gated", "unknown activation '" + word + "'", suggest_name(word, words));
  if (!gate.sizes().equals(up.sizes())) {
    ops::refuse("fused_gated",
                "gate " + c10::str(gate.sizes()) + " and up " + c10::str(up.sizes()) + " differ",
                "give two tensors of one shape");
  }
  const Activation meaning = detail::meaning_of(activations(), word);
  if (!ops::kernels_take({gate, up})) return by_operators(meaning, gate, up);
  return Gated::apply(static_cast<std::int64_t>(meaning), gate, up);
}

}  // namespace sluice
