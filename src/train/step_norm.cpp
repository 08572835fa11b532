#include "train/step_norm.h"

#include "comm/gather_messages.h"
#include "sluice/parts/gradient_norm.h"

namespace sluice {

Work<GradientNorms> post_gradient_norms(
    const std::vector<SharedParameter>& parameters, const Group& world,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of) {
  WireWriter own;  // of the parameters that this rank owns, in layer order
  for (const SharedParameter& parameter : parameters) {
    if (parameter.owner() != world.rank()) continue;
    const at::Tensor gradient = gradient_of(parameter.uses.front());
    own.add(gradient.defined() ? tensor_norm(gradient) : 0.0);
  }
  return post_messages(world, own, "gradient norms")
      .then([&parameters](std::vector<WireReader> messages) {
        GradientNorms norms;
        std::vector<double> values;
        for (const SharedParameter& parameter : parameters) {
          values.push_back(messages[parameter.owner()].take<double>());
          norms.of_parameters.emplace_back(parameter.name, values.back());
        }
        for (const WireReader& message : messages) message.finish();
        norms.total = combine_norms(values);
        return norms;
      });
}

}  // namespace sluice
