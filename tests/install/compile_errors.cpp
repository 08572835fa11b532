// Mistakes in the use of the public interface that the compiler must explain. CASE selects one.
#include <torch/nn/modules/linear.h>

#include "sluice/pipeline.h"

struct NetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x; }
};
TORCH_MODULE(Net);

int main() {
  sluice::Model model;
  [[maybe_unused]] const auto make = [](const sluice::Kept&) { return Net(); };
  [[maybe_unused]] const auto forward = [](NetImpl& net, const at::Tensor& x) {
    return net.forward(x);
  };
#if CASE == 0  // no mistake
  model = sluice::from_module(make, forward);
  model.loss = sluice::mean_loss(
      [](const sluice::Values& out, const sluice::Values&) { return out["hidden"].mean(); });
#elif CASE == 1
  model = sluice::from_module([] { return Net(); }, forward);
#elif CASE == 2
  model = sluice::from_module(make, [](Net& net, const at::Tensor& x) { return net->forward(x); });
#elif CASE == 3
  model.loss = [](const sluice::Values& out, const sluice::Values&) {
    return out["hidden"].mean();
  };
#elif CASE == 4
  sluice::run(model, {}, [](sluice::Model&) {});
#elif CASE == 5
  model.layers.push_back(sluice::layer(
      "a", {"x"}, {"y"}, [] { return torch::nn::Linear(2, 2); },
      [](torch::nn::LinearImpl& linear, const at::Tensor& x) { return linear.forward(x); }));
#endif
  return model.layers.empty() ? 0 : 1;
}
