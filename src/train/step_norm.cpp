#include "train/step_norm.h"

#include <algorithm>

#include "comm/gather_messages.h"
#include "engine/executor.h"
#include "engine/replicas.h"
#include "optim/gradient_norm.h"
#include "optim/slice_blocks.h"

namespace sluice {
namespace {

// Whether this rank adds the parameter's norm to the total. Only the owner does. If tensor-parallel
// ranks, or the ranks that share experts, hold copies, only the first does. by_blocks: each replica
// adds the norm of its own blocks.
bool is_counted(const SharedParameter& parameter, const RunGroups& groups, bool by_blocks) {
  const bool is_first = parameter.expert_coordinate || by_blocks || groups.expert_coordinate == 0;
  return parameter.owner() == groups.place() && is_first &&
         (parameter.is_divided || groups.is_first_share());
}

// Returns one norm per slice, in slice order. An undivided parameter has a single norm.
template <typename SquaresOf>
std::vector<double> norms_of_slices(const SharedParameter& parameter, const RunGroups& groups,
                                    const SquaresOf& squares_of) {
  std::vector<double> norms;
  const int num_shares = parameter.is_divided ? groups.num_shares : 1;
  const int each = parameter.is_divided ? parameter.slices.size() : 1;
  for (int share = 0; share < num_shares; ++share) {
    for (int slice = 0; slice < each; ++slice) norms.push_back(squares_of(share, slice));
  }
  return norms;
}

void add_norms(GradientNorms& norms, std::vector<double>& values, const SharedParameter& parameter,
               const std::vector<double>& of_slices) {
  values.insert(values.end(), of_slices.begin(), of_slices.end());
  norms.of_parameters.emplace_back(parameter.name, combine_norms(of_slices));
}

Work<GradientNorms> post_norms(const std::vector<SharedParameter>& parameters,
                               const RunGroups& groups, const Mesh& mesh,
                               const std::vector<SliceSquares>& own) {
  Packer writer;
  for (const SliceSquares& norms : own) {
    for (const std::vector<double>& norm : norms) writer.add(norm.front());
  }
  return post_messages(groups.copy, writer, "gradient norms")
      .then([&parameters, &mesh, groups](std::vector<Unpacker> messages) {
        GradientNorms norms;
        std::vector<double> values;
        const std::vector<int>& members = groups.copy.members();
        const auto message_of = [&](const SharedParameter& parameter, int share) -> Unpacker& {
          const int replica =
              replica_of_expert(mesh, groups.replica, parameter.expert_coordinate.value_or(0));
          const int rank = rank_at(mesh, parameter.place, replica, share);
          const auto member = std::lower_bound(members.begin(), members.end(), rank);
          return messages[static_cast<std::size_t>(member - members.begin())];
        };
        for (const SharedParameter& parameter : parameters) {
          add_norms(norms, values, parameter,
                    norms_of_slices(parameter, groups, [&](int share, int /*slice*/) {
                      return message_of(parameter, share).take<double>();
                    }));
        }
        for (const Unpacker& message : messages) message.finish();
        norms.total = combine_norms(values);
        return norms;
      });
}

Work<GradientNorms> post_squares(const std::vector<SharedParameter>& parameters,
                                 const RunGroups& groups, const Mesh& mesh,
                                 const std::vector<SliceSquares>& own) {
  Packer writer;
  for (const SliceSquares& squares : own) {
    for (const std::vector<double>& of_slice : squares) writer.add(of_slice);
  }
  return post_messages(groups.world, writer, "gradient norms")
      .then([&parameters, &mesh, groups](std::vector<Unpacker> messages) {
        GradientNorms norms;
        std::vector<double> values;
        for (const SharedParameter& parameter : parameters) {
          add_norms(norms, values, parameter,
                    norms_of_slices(parameter, groups, [&](int share, int /*slice*/) {
                      std::vector<double> squares;
                      for (int replica = 0; replica < groups.num_replicas; ++replica) {
                        const int coordinate =
                            parameter.expert_coordinate.value_or(replica % mesh.size(Axis::kEp));
                        if (replica_of_expert(mesh, replica, coordinate) != replica) continue;
                        const int rank = rank_at(mesh, parameter.place, replica, share);
                        const auto more =
                            messages[static_cast<std::size_t>(rank)].take<std::vector<double>>();
                        squares.insert(squares.end(), more.begin(), more.end());
                      }
                      return norm_of_blocks(squares);
                    }));
        }
        for (const Unpacker& message : messages) message.finish();
        norms.total = combine_norms(values);
        return norms;
      });
}

// Elements per piece of idle work. Small, so that an arriving message need not wait long.
constexpr std::int64_t kPieceElements = 64 * kGradientBlock;

bool is_summed_by_blocks(const at::Tensor& gradient) {
  const bool is_float =
      gradient.scalar_type() == at::kFloat || gradient.scalar_type() == at::kDouble;
  return gradient.device().is_cpu() && is_float && gradient.is_contiguous();
}

const ParameterInfo& info_of(const ParameterUse& use) { return use.stage->parameters()[use.index]; }

SliceSquares no_squares(const SharedParameter& parameter) {
  return SliceSquares(static_cast<std::size_t>(parameter.is_divided ? parameter.slices.size() : 1));
}

SliceSquares norms_here(const SharedParameter& parameter, const at::Tensor& gradient,
                        const SquaresOf& squares_of) {
  SliceSquares norms = no_squares(parameter);
  if (!gradient.defined()) {
    for (std::vector<double>& norm : norms) norm = {0.0};
  } else if (parameter.is_divided) {
    const at::Tensor flat = gradient.detach().contiguous().view(-1);
    norms = slice_squares(info_of(parameter.uses.front()), flat, 0, squares_of);
    for (std::vector<double>& norm : norms) norm = {norm_of_blocks(norm)};
  } else if (!gradient.is_cpu()) {
    norms.front() = {norm_of_blocks(squares_of(gradient.detach().contiguous().view(-1)))};
  } else {
    norms.front() = {tensor_norm(gradient)};
  }
  return norms;
}

SliceSquares squares_here(const SharedParameter& parameter, const at::Tensor& flat,
                          std::int64_t begin, const SquaresOf& squares_of) {
  if (!flat.defined()) return no_squares(parameter);
  if (parameter.is_divided)
    return slice_squares(info_of(parameter.uses.front()), flat, begin, squares_of);
  return {squares_of(flat)};
}

}  // namespace

Work<GradientNorms> post_gradient_norms(
    const std::vector<SharedParameter>& parameters, const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of) {
  std::vector<SliceSquares> own;
  take_squares([&](const SquaresOf& squares_of) {
    own.clear();
    for (const SharedParameter& parameter : parameters) {
      if (is_counted(parameter, groups, /*by_blocks=*/false))
        own.push_back(norms_here(parameter, gradient_of(parameter.uses.front()), squares_of));
    }
  });
  return post_norms(parameters, groups, mesh, own);
}

Work<GradientNorms> post_block_norms(
    const std::vector<SharedParameter>& parameters, const BlockOwners& owners,
    const RunGroups& groups, const Mesh& mesh,
    const std::function<at::Tensor(const ParameterUse&)>& gradient_of) {
  std::vector<SliceSquares> own;
  take_squares([&](const SquaresOf& squares_of) {
    own.clear();
    for (const SharedParameter& parameter : parameters) {
      if (!is_counted(parameter, groups, /*by_blocks=*/true)) continue;
      const ParameterUse& use = parameter.uses.front();
      const auto range = owners.range(use.stage->index(), use.index, groups.replica);
      own.push_back(squares_here(parameter, range ? gradient_of(use) : at::Tensor(),
                                 range ? range->begin : 0, squares_of));
    }
  });
  return post_squares(parameters, groups, mesh, own);
}

bool StepNorms::is_owned(const SharedParameter& parameter) const {
  return is_counted(parameter, groups_, owners_ != nullptr);
}

at::Tensor StepNorms::own_elements(const SharedParameter& parameter, std::int64_t& begin) const {
  const ParameterUse& use = parameter.uses.front();
  const at::Tensor& gradient = use.gradient();
  begin = 0;
  if (!owners_ || !gradient.defined()) return gradient;
  const auto range = owners_->range(use.stage->index(), use.index, groups_.replica);
  if (range) begin = range->begin;
  return range ? elements_of(gradient, *range) : at::Tensor();
}

SliceSquares StepNorms::take(const SharedParameter& parameter, const SquaresOf& squares_of) const {
  std::int64_t begin = 0;
  const at::Tensor own = own_elements(parameter, begin);
  return owners_ ? squares_here(parameter, own, begin, squares_of)
                 : norms_here(parameter, own, squares_of);
}

IdleWork StepNorms::of_stage(int stage, std::function<bool(const SharedParameter&)> is_known) {
  std::vector<const SharedParameter*> left;
  for (auto parameter = parameters_.rbegin(); parameter != parameters_.rend(); ++parameter) {
    // Skip GPU tensors, because post() reads their norms together.
    const ParameterUse& use = parameter->uses.front();
    if (is_owned(*parameter) && use.stage->index() == stage && info_of(use).tensor.is_cpu() &&
        is_known(*parameter))
      left.push_back(&*parameter);
  }
  if (left.empty()) return {};
  return [this, left = std::move(left), squares = std::vector<double>(),
          begin = std::int64_t{0}]() mutable {
    const SharedParameter& parameter = *left.back();
    std::int64_t first = 0;
    const at::Tensor own = own_elements(parameter, first);
    const auto add = [&](std::int64_t end) {
      const std::vector<double> more = block_squares(own.view({-1}).slice(0, begin, end));
      squares.insert(squares.end(), more.begin(), more.end());
      begin = end;
    };
    // A divided parameter is summed at once, because each slice has its own blocks
    // (slice_blocks.h).
    const bool in_pieces = own.defined() && !parameter.is_divided && is_summed_by_blocks(own);
    if (in_pieces && begin + kPieceElements < own.numel()) {
      add(begin + kPieceElements);
      return true;
    }
    if (begin == 0) {
      taken_[&parameter] = take(parameter, block_squares);
    } else {
      add(own.numel());
      taken_[&parameter] = {owners_ ? std::move(squares) : std::vector{norm_of_blocks(squares)}};
      squares.clear();
      begin = 0;
    }
    left.pop_back();
    return !left.empty();
  };
}

Work<GradientNorms> StepNorms::post() {
  std::vector<SliceSquares> own;
  take_squares([&](const SquaresOf& squares_of) {
    own.clear();
    for (const SharedParameter& parameter : parameters_) {
      if (!is_owned(parameter)) continue;
      const auto taken = taken_.find(&parameter);
      own.push_back(taken == taken_.end() ? take(parameter, squares_of) : taken->second);
    }
  });
  taken_.clear();
  return owners_ ? post_squares(parameters_, groups_, mesh_, own)
                 : post_norms(parameters_, groups_, mesh_, own);
}

}  // namespace sluice
