#include "train/step_norm.h"

#include "comm/gather_messages.h"
#include "engine/executor.h"
#include "engine/replicas.h"
#include "optim/gradient_norm.h"

namespace sluice {
namespace {

// own: of the parameters that this rank owns, in layer order.
Work<GradientNorms> post_norms(const std::vector<SharedParameter>& parameters, const Group& world,
                               const std::vector<double>& own) {
  Packer writer;
  for (const double norm : own) writer.add(norm);
  return post_messages(world, writer, "gradient norms")
      .then([&parameters](std::vector<Unpacker> messages) {
        GradientNorms norms;
        std::vector<double> values;
        for (const SharedParameter& parameter : parameters) {
          values.push_back(messages[parameter.owner()].take<double>());
          norms.of_parameters.emplace_back(parameter.name, values.back());
        }
        for (const Unpacker& message : messages) message.finish();
        norms.total = combine_norms(values);
        return norms;
      });
}

// own: the sums of squares of the blocks that this rank owns of its parameters, in layer order.
Work<GradientNorms> post_squares(const std::vector<SharedParameter>& parameters,
                                 const RunGroups& groups, const Mesh& mesh,
                                 const std::vector<std::vector<double>>& own) {
  Packer writer;
  for (const std::vector<double>& squares : own) writer.add(squares);
  return post_messages(groups.world, writer, "gradient norms")
      .then([&parameters, &mesh,
             num_replicas = groups.num_replicas](std::vector<Unpacker> messages) {
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
        for (const Unpacker& message : messages) message.finish();
        norms.total = combine_norms(values);
        return norms;
      });
}

// A piece of a norm: a message that comes meanwhile waits for one, not for a whole head.
constexpr std::int64_t kPieceElements = 64 * kGradientBlock;

bool is_summed_by_blocks(const at::Tensor& gradient) {
  const bool is_float =
      gradient.scalar_type() == at::kFloat || gradient.scalar_type() == at::kDouble;
  return gradient.device().is_cpu() && is_float && gradient.is_contiguous();
}

double norm_of(const at::Tensor& gradient) {
  return gradient.defined() ? tensor_norm(gradient) : 0.0;
}

}  // namespace

Work<GradientNorms> post_gradient_norms(
    const std::vector<SharedParameter>& parameters, const Group& world,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of) {
  std::vector<double> own;
  for (const SharedParameter& parameter : parameters) {
    if (parameter.owner() == world.rank())
      own.push_back(norm_of(gradient_of(parameter.uses.front())));
  }
  return post_norms(parameters, world, own);
}

Work<GradientNorms> post_block_norms(
    const std::vector<SharedParameter>& parameters, const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of) {
  std::vector<std::vector<double>> own;
  for (const SharedParameter& parameter : parameters) {
    if (parameter.owner() != groups.place()) continue;
    const at::Tensor gradient = gradient_of(parameter.uses.front());
    own.push_back(gradient.defined() ? block_squares(gradient) : std::vector<double>());
  }
  return post_squares(parameters, groups, mesh, own);
}

bool StepNorms::is_owned(const SharedParameter& parameter) const {
  return parameter.owner() == groups_.place();
}

at::Tensor StepNorms::own_elements(const SharedParameter& parameter) const {
  const ParameterUse& use = parameter.uses.front();
  const at::Tensor& gradient = use.gradient();
  if (!owners_ || !gradient.defined()) return gradient;
  const auto range = owners_->range(use.stage->index(), use.index, groups_.replica);
  return range ? elements_of(gradient, *range) : at::Tensor();
}

std::vector<double> StepNorms::take(const SharedParameter& parameter) const {
  const at::Tensor own = own_elements(parameter);
  if (!owners_) return {norm_of(own)};
  return own.defined() ? block_squares(own) : std::vector<double>();
}

IdleWork StepNorms::of_stage(int stage, std::function<bool(const SharedParameter&)> is_known) {
  std::vector<const SharedParameter*> left;  // from the back
  for (auto parameter = parameters_.rbegin(); parameter != parameters_.rend(); ++parameter) {
    if (is_owned(*parameter) && parameter->uses.front().stage->index() == stage &&
        is_known(*parameter))
      left.push_back(&*parameter);
  }
  if (left.empty()) return {};
  return [this, left = std::move(left), squares = std::vector<double>(),
          begin = std::int64_t{0}]() mutable {
    const SharedParameter& parameter = *left.back();
    const at::Tensor own = own_elements(parameter);
    const auto add = [&](std::int64_t end) {
      const std::vector<double> more = block_squares(own.view({-1}).slice(0, begin, end));
      squares.insert(squares.end(), more.begin(), more.end());
      begin = end;
    };
    if (own.defined() && is_summed_by_blocks(own) && begin + kPieceElements < own.numel()) {
      add(begin + kPieceElements);
      return true;
    }
    if (begin == 0) {
      taken_[&parameter] = take(parameter);
    } else {
      add(own.numel());
      taken_[&parameter] = owners_ ? std::move(squares) : std::vector{norm_of_blocks(squares)};
      squares.clear();
      begin = 0;
    }
    left.pop_back();
    return !left.empty();
  };
}

Work<GradientNorms> StepNorms::post() {
  std::vector<std::vector<double>> own;
  for (const SharedParameter& parameter : parameters_) {
    if (!is_owned(parameter)) continue;
    const auto taken = taken_.find(&parameter);
    own.push_back(taken == taken_.end() ? take(parameter) : std::move(taken->second));
  }
  taken_.clear();
  return owners_ ? post_squares(parameters_, groups_, mesh_, own) : post_whole(own);
}

Work<GradientNorms> StepNorms::post_whole(const std::vector<std::vector<double>>& own) const {
  std::vector<double> norms;
  for (const std::vector<double>& norm : own) norms.push_back(norm.front());
  return post_norms(parameters_, groups_.pipeline, norms);
}

}  // namespace sluice
