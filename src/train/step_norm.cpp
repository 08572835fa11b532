#include "train/step_norm.h"

#include "comm/gather_messages.h"
#include "sluice/parts/gradient_norm.h"

namespace sluice {

Work<void> StepNorm::reduce(StepReport& report) const {
  WireWriter own;  // of the parameters that this rank owns, in layer order
  for (const SharedParameter& parameter : parameters_) {
    if (parameter.owner() != world_.rank()) continue;
    const at::Tensor& gradient = parameter.uses.front().gradient();
    own.add(gradient.defined() ? tensor_norm(gradient) : 0.0);
  }
  return post_messages(world_, own, "gradient norms")
      .then([this, &report](std::vector<WireReader> messages) {
        std::vector<double> norms;
        report.parameter_norms.clear();
        for (const SharedParameter& parameter : parameters_) {
          norms.push_back(messages[static_cast<std::size_t>(parameter.owner())].take<double>());
          report.parameter_norms.emplace_back(parameter.name, norms.back());
        }
        for (const WireReader& message : messages) message.finish();
        report.grad_norm = combine_norms(norms);
      });
}

}  // namespace sluice
