#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/nearest_name.h"
#include "optim/gradient_norm.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"
#include "sluice/pipeline.h"
#include "train/gather_slices.h"
#include "train/pipeline_impl.h"
#include "train/state_dict.h"
#include "train/step_checks.h"
#include "train/step_norm.h"

namespace sluice {

void Pipeline::Impl::require_own(const torch::optim::Optimizer& optimizer) {
  callers.require_fits(optimizer, "Pipeline::check");
  grads.give_out();
}

void Pipeline::Impl::require_own(const char* call,
                                 const std::vector<const torch::optim::Optimizer*>& optimizers) {
  if (optimizers.empty()) return;
  require_callers_update(rank.plan(), call);
  std::set<const void*> seen;
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage, {.what = what, .where = call, .remedy = remedy});
  };
  for (const torch::optim::Optimizer* optimizer : optimizers) {
    if (!optimizer) refuse("an optimizer is null", "leave it out, on every rank");
    require_own(*optimizer);
    for (const auto& group : optimizer->param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        if (seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
        refuse("'" + callers.name_of(parameter) + "' is in two optimizers",
               "make each optimizer of different parameters");
      }
    }
  }
}

void Pipeline::Impl::require_whole(const char* call) const {
  if (!share.sharded) return;
  throw Error(ErrorKind::kUsage,
              {.what = "with zero3 a rank has its replica's own blocks, no whole parameters",
               .where = call,
               .remedy = "named_parameters() returns the blocks, save() and state() gather them, "
                         "load_weights() and load() fill them"});
}

void Pipeline::Impl::hand_out_whole_parameters() {
  if (!callers.are_blocks()) grads.give_out();
}

Work<GradientNorms> Pipeline::Impl::post_norms() {
  if (!callers.are_blocks()) {
    return post_gradient_norms(share.parameters, share.groups, share.mesh,
                               [&](const ParameterUse& use) { return grads.of(use); });
  }
  return post_block_norms(share.parameters, share.owners, share.groups, share.mesh,
                          [&](const ParameterUse& use) {
                            const at::Tensor gradient = grads.of(use);
                            return gradient.defined() ? gradient.detach().reshape({-1}) : gradient;
                          });
}

PipelineState Pipeline::Impl::state() {
  return {.rank = rank, .parameters = callers, .world = world, .step = step};
}

void Pipeline::to(at::Device device) {
  require_no_step("Pipeline::to");
  if (impl_->gave_parameters || impl_->rank.has_run()) {
    throw Error(ErrorKind::kUsage,
                {.what = impl_->gave_parameters ? "parameters() was called already"
                                                : "the pipeline has made a step already",
                 .where = "Pipeline::to on rank " + std::to_string(rank()),
                 .remedy = "move it first, then make the optimizer of pipeline.parameters()"});
  }
  if (impl_->rank.update()) {
    throw Error(ErrorKind::kUsage, {.what = "the pipeline has a trainer already",
                                    .where = "Pipeline::to on rank " + std::to_string(rank()),
                                    .remedy = "move it first, then make the trainer"});
  }
  impl_->require_whole("Pipeline::to");
  impl_->share.stages.to(device);
  impl_->callers.make_anew();
}

std::vector<at::Tensor> Pipeline::parameters() const {
  require_no_step("Pipeline::parameters");
  impl_->gave_parameters = true;
  impl_->grads.give_out();
  std::vector<at::Tensor> parameters;
  for (const OwnBlocks& own : impl_->callers.all())
    if (own.range) parameters.push_back(own.value);
  return parameters;
}

std::vector<ParameterInfo> Pipeline::named_parameters() const {
  require_no_step("Pipeline::named_parameters");
  impl_->grads.give_out();
  std::vector<ParameterInfo> all;
  const RankModel& share = impl_->share;
  for (const auto& stage : share.stages.stages()) {
    for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
      ParameterInfo& info = all.emplace_back(stage->parameters()[i]);
      const at::Tensor own = impl_->callers.of(info.name);
      if (own.defined() && impl_->callers.are_blocks())
        info.tensor = own;
      else if (share.sharded && share.sharded->is_sharded(stage->index(), i))
        info.tensor = share.sharded->own(stage->index(), i);
    }
  }
  return all;
}

std::vector<std::pair<std::string, at::Tensor>> Pipeline::local_state_dict() const {
  require_no_step("Pipeline::local_state_dict");
  impl_->require_whole("Pipeline::local_state_dict");
  std::vector<std::pair<std::string, at::Tensor>> state;
  std::set<std::string> seen;
  for (const auto& stage : impl_->share.stages.stages()) {
    for (const ParameterInfo& info : stage->parameters()) {
      const std::string& name = info.tied_to.empty() ? info.name : info.tied_to;
      if (seen.insert(name).second) state.emplace_back(name, info.tensor.detach());
    }
  }
  // Several stages cut from one module may have buffers of the same name.
  for (const auto& stage : impl_->share.stages.stages()) {
    for (const auto& [name, tensor] : stage->chunk().buffers()) state.emplace_back(name, tensor);
  }
  return state;
}

std::vector<std::pair<std::string, at::Tensor>> Pipeline::state_dict() const {
  return impl_->abort_on_error("Pipeline::state_dict", [&] {
    impl_->callers.require_settled("Pipeline::state_dict");
    require_call(impl_->world, "state_dict");
    return gather_state_dict(impl_->rank);
  });
}

void Pipeline::load_state_dict(const std::vector<std::pair<std::string, at::Tensor>>& state) {
  require_no_step("Pipeline::load_state_dict");
  const at::NoGradGuard no_grad;
  const auto refuse = [](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage,
                {.what = what, .where = "Pipeline::load_state_dict", .remedy = remedy});
  };
  std::map<std::string, std::vector<at::Tensor>> given;
  for (const auto& [name, tensor] : state) given[name].push_back(tensor);
  std::vector<std::string> names;
  names.reserve(given.size());
  for (const auto& [name, tensors] : given) names.push_back(name);
  const auto own = local_state_dict();
  std::map<std::string, std::size_t> num_own, num_seen;
  for (const auto& [name, tensor] : own) ++num_own[name];
  // Values of tensor-parallel parameters may be whole, as from state_dict().
  for (const auto& [name, info] : parameters_by_name(impl_->share.stages.pointers())) {
    const auto found = given.find(name);
    if (found == given.end()) continue;
    for (at::Tensor& value : found->second)
      if (value.sizes() == at::IntArrayRef(info->global_shape)) value = held_of(*info, value);
  }
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    if (found == given.end()) refuse("'" + name + "' is missing", suggest_name(name, names));
    const std::vector<at::Tensor>& of_name = found->second;
    for (const at::Tensor& value : of_name) {
      if (value.sizes() == tensor.sizes()) continue;
      refuse("'" + name + "' is " + to_text(meta_of(value)) + ", not " + to_text(meta_of(tensor)),
             "give the state of the same model");
    }
    // There is either one value per tensor of this name, or all values must be equal.
    const std::size_t at = num_seen[name]++;
    const bool for_each = of_name.size() == num_own[name];
    for (const at::Tensor& value : of_name) {
      if (for_each || at::equal(value, of_name.front())) continue;
      refuse(formatted("'{}' comes with different values: {} are given, but this rank has {}", name,
                       of_name.size(), num_own[name]),
             "give this rank's own state, or hold the buffer in a part of the module");
    }
    values.push_back(of_name[for_each ? at : 0]);
  }
  for (std::size_t i = 0; i < own.size(); ++i) at::Tensor(own[i].second).copy_(values[i]);
  impl_->share.has_weights = true;
  impl_->share.unfilled.clear();
  impl_->callers.settle();
}

void Pipeline::save(const std::string& path, const SaveOptions& options) {
  const SaveOutcome outcome = impl_->abort_on_error("Pipeline::save", [&] {
    impl_->require_own("Pipeline::save with an optimizer", options.optimizers);
    impl_->callers.require_settled("Pipeline::save");
    require_call(impl_->world, "save");
    return save_pipeline(impl_->state(), path, options);
  });
  // All ranks throw this error and can continue.
  if (outcome.error) throw Error(*outcome.error);
}

LoadedState Pipeline::load(const std::string& path, const LoadOptions& options) {
  return impl_->abort_on_error("Pipeline::load", [&] {
    impl_->require_own("Pipeline::load with an optimizer",
                       {options.optimizers.begin(), options.optimizers.end()});
    require_call(impl_->world, "load");
    LoadedState loaded = load_pipeline(impl_->state(), path, options);
    impl_->step = loaded.step;
    impl_->callers.settle();
    return loaded;
  });
}

void Pipeline::load_weights(const FillStage& fill) {
  require_no_step("Pipeline::load_weights");
  impl_->share.fill(fill);
  impl_->callers.settle();
}

void Pipeline::scale_grads_by_divisor(double divisor) {
  require_no_step("Pipeline::scale_grads_by_divisor");
  require_callers_update(impl_->rank.plan(), "Pipeline::scale_grads_by_divisor");
  require_divisor("Pipeline::scale_grads_by_divisor",
                  GradientScale(GradientScale::kDivisor, divisor));
  impl_->grads.scale(1.0 / divisor);
}

double Pipeline::clip_grad_norm(double max_norm) {
  require_thread(impl_->thread, "Pipeline::clip_grad_norm");
  require_no_step("Pipeline::clip_grad_norm");
  require_callers_update(impl_->rank.plan(), "Pipeline::clip_grad_norm");
  if (!(max_norm >= 0)) {
    throw Error(ErrorKind::kUsage, {.what = "the largest norm is " + std::to_string(max_norm),
                                    .where = "Pipeline::clip_grad_norm",
                                    .remedy = "give a number above 0, or 0 not to clip"});
  }
  require_call(impl_->world, "clip_grad_norm");
  const at::NoGradGuard no_grad;
  const GradientNorms norms = impl_->post_norms().wait();
  const double coefficient = clip_coefficient(norms.total, max_norm);
  if (coefficient != 1.0) impl_->grads.scale(coefficient);
  return norms.total;
}

void Pipeline::zero_grad() {
  require_no_step("Pipeline::zero_grad");
  impl_->grads.clear();
}

void Pipeline::check(const torch::optim::Optimizer& optimizer) const {
  require_no_step("Pipeline::check");
  impl_->require_own(optimizer);
}

}  // namespace sluice
