#include "train/step_norm.h"

#include "comm/gather_messages.h"
#include "run/replicas.h"
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

Work<GradientNorms> post_gradient_norms(const std::vector<SharedParameter>& parameters,
                                        const BlockOwners& owners, const RunGroups& groups,
                                        const Mesh& mesh) {
  WireWriter own;
  for (const SharedParameter& parameter : parameters) {
    if (parameter.owner() != groups.place()) continue;
    const ParameterUse& use = parameter.uses.front();
    const auto range = owners.range(use.stage->index(), use.index, groups.replica);
    const bool is_there = range && use.gradient().defined();
    own.add(is_there ? block_squares(elements_of(use.gradient(), *range)) : std::vector<double>());
  }
  return post_messages(groups.world, own, "gradient norms")
      .then([&parameters, &mesh,
             num_replicas = groups.num_replicas](std::vector<WireReader> messages) {
        GradientNorms norms;
        std::vector<double> values;
        for (const SharedParameter& parameter : parameters) {
          std::vector<double> squares;
          for (int replica = 0; replica < num_replicas; ++replica) {
            const int rank = rank_at(mesh, parameter.owner(), replica);
            const auto more = messages[static_cast<std::size_t>(rank)].take<std::vector<double>>();
            squares.insert(squares.end(), more.begin(), more.end());
          }
          values.push_back(norm_of_blocks(squares));
          norms.of_parameters.emplace_back(parameter.name, values.back());
        }
        for (const WireReader& message : messages) message.finish();
        norms.total = combine_norms(values);
        return norms;
      });
}

}  // namespace sluice
