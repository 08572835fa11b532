#include "train/callers_parameters.h"

#include <torch/optim/lbfgs.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "checkpoint/tensor_files.h"
#include "checkpoint/torch_optimizer.h"
#include "sluice/error.h"
#include "sluice/parts/values.h"

namespace sluice {
namespace {

constexpr std::int64_t kHashedElements = 512;

const char* kind_of_shards(const RankModel& rank) {
  return rank.data_parallel.zero3 ? "zero3" : "zero1";
}

}  // namespace

CallersParameters::CallersParameters(const RankModel& rank, bool are_callers)
    : rank_(rank), are_blocks_(are_callers && rank.shards_state) {
  make_anew();
}

void CallersParameters::make_anew() {
  blocks_ = own_blocks(rank_);
  for (OwnBlocks& own : blocks_) {
    if (are_blocks_) {
      // A new tensor has a version counter of its own, so only the caller's writes advance the
      // counter.
      own.value = own.value.variable_data().set_requires_grad(true);
    } else {
      own = whole_of(*own.parameter, *own.use);
    }
  }
  settle();
}

at::Tensor CallersParameters::of(const std::string& use) const {
  for (const OwnBlocks& own : blocks_) {
    for (const ParameterUse& each : own.parameter->uses)
      if (each.stage && each.name == use) return own.value;
  }
  return {};
}

const std::string& CallersParameters::name_of(const at::Tensor& own) const {
  return std::find_if(blocks_.begin(), blocks_.end(),
                      [&](const OwnBlocks& each) { return each.value.is_same(own); })
      ->parameter->name;
}

CallersParameters::Mark CallersParameters::mark_of(const OwnBlocks& own) {
  const at::Tensor flat = own.value.detach().reshape({-1});
  const std::int64_t step = std::max<std::int64_t>(1, flat.numel() / kHashedElements);
  return {own.value._version(), own.use->value()._version(),
          tensor_hash(flat.slice(0, 0, {}, step))};
}

void CallersParameters::settle() {
  if (!are_blocks_) return;
  marks_.clear();
  for (const OwnBlocks& own : blocks_) marks_.push_back(mark_of(own));
}

void CallersParameters::require_settled(const char* call) const {
  if (!are_blocks_) return;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Mark now = mark_of(blocks_[i]), &then = marks_[i];
    // Callers may write to a whole parameter, because we assume that they do so on all replicas
    // alike.
    const bool is_written = now.of_parameter == then.of_parameter && now.hash != then.hash;
    if (now.of_block == then.of_block && !is_written) continue;
    throw Error(ErrorKind::kUsage,
                {.what = formatted("this replica's blocks of '{}' were written to, as by "
                                   "optimizer.step(): with {} the other replicas lack this update",
                                   blocks_[i].parameter->name, kind_of_shards(rank_)),
                 .where = formatted("{} on rank {}", call, rank_.groups.world.rank()),
                 .remedy = "call pipeline.update(optimizer) in place of optimizer.step()"});
  }
}

void CallersParameters::require_fits(const torch::optim::Optimizer& optimizer,
                                     const std::string& where) const {
  std::set<const void*> own;
  for (const OwnBlocks& each : blocks_) own.insert(each.value.unsafeGetTensorImpl());
  const std::string of_rank = formatted("{} on rank {}", where, rank_.groups.world.rank());
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (own.contains(parameter.unsafeGetTensorImpl())) continue;
      throw Error(
          ErrorKind::kUsage,
          {.what = "the optimizer holds a parameter, " + to_text(meta_of(parameter)) +
                   ", that does not belong to this rank's pipeline",
           .where = of_rank,
           .remedy = "make the optimizer after the pipeline, of pipeline.parameters()" +
                     std::string(are_blocks_ ? ", which are this replica's own blocks" : "")});
    }
  }
  if (!are_blocks_) return;
  require_no_closure(optimizer, of_rank);
  if (is_known_optimizer(optimizer)) return;
  throw Error(
      ErrorKind::kUsage,
      {.what = std::string("with ") + kind_of_shards(rank_) +
               " an optimizer updates flat blocks of parameters, but this one is not known to "
               "update element by element",
       .where = of_rank,
       .remedy = "use AdamW, Adam, SGD, RMSprop or Adagrad, or leave zero1 and zero3 off"});
}

void require_no_closure(const torch::optim::Optimizer& optimizer, const std::string& where) {
  if (!dynamic_cast<const torch::optim::LBFGS*>(&optimizer)) return;
  throw Error(ErrorKind::kUsage,
              {.what = "LBFGS needs a closure that computes the loss again, and whole parameters",
               .where = where,
               .remedy = "use AdamW, Adam, SGD, RMSprop or Adagrad"});
}

}  // namespace sluice
