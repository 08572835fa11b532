#include "train/update.h"

#include <algorithm>
#include <utility>

#include "sluice/parts/gradient_norm.h"
#include "train/gather_blocks.h"

namespace sluice {
namespace {

// Lends gradients to `.grad`, once for each storage.
class GradGuard {
 public:
  void lend(at::Tensor& value, const at::Tensor& gradient) {
    value.mutable_grad() = gradient;
    values_.push_back(value);
  }
  GradGuard() = default;
  ~GradGuard() {
    for (at::Tensor& value : values_) value.mutable_grad().reset();
  }
  GradGuard(const GradGuard&) = delete;
  GradGuard& operator=(const GradGuard&) = delete;

 private:
  std::vector<at::Tensor> values_;
};

}  // namespace

Update::Update(const OptimizerOptions& options, const std::vector<SharedParameter>& parameters,
               const BlockOwners* owners, const RunGroups& groups, const ShardedParameters* sharded)
    : parameters_(parameters),
      owners_(owners),
      sharded_(sharded),
      groups_(groups),
      max_norm_(options.max_norm) {
  std::vector<OptimizedParameter> own;
  for (const SharedParameter& parameter : parameters) {
    const ParameterUse* use = parameter.local_use();
    if (!use) continue;
    Target target{use, use->value(), {}};
    if (owners) {
      const auto range = owners->range(use->stage->index(), use->index, groups.replica);
      if (!range) continue;
      target.range = *range;
      // One that is not contiguous is one block.
      if (is_sharded(*use))
        target.value = sharded->own(use->stage->index(), use->index);
      else if (target.value.is_contiguous())
        target.value = elements_of(target.value, *range);
      else
        target.value = target.value.detach();
    }
    own.push_back({parameter.name, target.value});
    targets_.push_back(std::move(target));
  }
  optimizer_ = make_optimizer(options, std::move(own));
}

bool Update::is_sharded(const ParameterUse& use) const {
  return sharded_ && sharded_->is_sharded(use.stage->index(), use.index);
}

Work<void> Update::run(int stage, double lr, double grad_norm) {
  std::vector<std::size_t> members;
  {
    GradGuard grads;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      Target& target = targets_[i];
      if (target.use->stage->index() != stage) continue;
      members.push_back(i);
      const at::Tensor& gradient = target.use->gradient();
      const bool is_part = owners_ && target.value.dim() == 1 && gradient.defined();
      grads.lend(target.value, is_part ? elements_of(gradient, target.range) : gradient);
    }
    optimizer_->step(members, lr, 1.0 / clip_coefficient(grad_norm, max_norm_));
  }
  return owners_ ? share(stage) : Work<void>::done();
}

Work<void> Update::share(int stage) {
  std::vector<std::vector<TensorBlock>> blocks(static_cast<std::size_t>(groups_.num_replicas));
  for (const SharedParameter& parameter : parameters_) {
    const ParameterUse* use = parameter.local_use();
    if (!use || use->stage->index() != stage || is_sharded(*use)) continue;
    for (int replica = 0; replica < groups_.num_replicas; ++replica) {
      if (const auto range = owners_->range(use->stage->index(), use->index, replica))
        blocks[static_cast<std::size_t>(replica)].push_back({use->value(), *range});
    }
  }
  // The same on all replicas.
  const bool is_nothing = std::all_of(blocks.begin(), blocks.end(),
                                      [](const auto& of_replica) { return of_replica.empty(); });
  return is_nothing ? Work<void>::done() : gather_blocks(groups_, std::move(blocks));
}

}  // namespace sluice
