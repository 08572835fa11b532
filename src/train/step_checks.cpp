#include "train/step_checks.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "engine/replicas.h"
#include "plan/option_words.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"

namespace sluice {

void require_planned_replicas(const Mesh& mesh, const DataParallel& data_parallel,
                              const char* where) {
  const bool shards_parameters = mesh.size(Axis::kDpShard) > 1;
  const bool fits = num_replicas(mesh) == data_parallel.degree &&
                    (data_parallel.degree == 1 || shards_parameters == data_parallel.zero3);
  if (fits) return;
  throw Error(ErrorKind::kUsage, {.what = counted(data_parallel.degree, "replica") +
                                          (data_parallel.zero3 ? " that share parameters" : "") +
                                          " are requested, but the program's mesh has " +
                                          counted(num_replicas(mesh), "replica") +
                                          (shards_parameters ? " that share parameters" : ""),
                                  .where = where,
                                  .remedy = "give Plan::data_parallel with Plan::program"});
}

HookedReduction hooked_reduction(const GradientReduction& reduction) {
  if (!reduction.reduce) return HookedReduction::kNone;
  return reduction.per_microbatch ? HookedReduction::kMicrobatch : HookedReduction::kStep;
}

void require_runnable(const Plan& plan, const Model& model, const RunOptions& options) {
  const DataParallel& how = plan.options.data_parallel;
  require_planned_replicas(plan.program.mesh, how, "Plan::data_parallel");
  require_divisor("RunOptions::scale", options.scale);
  require_reduction(options.reduction, plan);
  if (model.loss) return;
  throw Error(ErrorKind::kUsage,
              {.what = "the model has no loss", .where = "Pipeline", .remedy = "set Model::loss"});
}

Transport& require_fits(const Plan& plan, Transport& transport) {
  const int num_ranks = plan.program.mesh.num_ranks();
  if (transport.size() == num_ranks) return transport;
  throw Error(ErrorKind::kUsage, {.what = formatted("the plan has {}, but the transport has {}",
                                                    counted(num_ranks, "rank"), transport.size()),
                                  .where = "Pipeline",
                                  .remedy = "make as many endpoints as the plan has ranks"});
}

void require_counted(const StepBatch& batch, const std::string& what, const std::string& remedy) {
  if (batch.total_count.value_or(0) > 0) return;
  const auto counts = [](std::int64_t count) { return count > 0; };
  const bool is_all = !batch.total_count;
  if (is_all && std::any_of(batch.counts.begin(), batch.counts.end(), counts)) return;
  throw Error(ErrorKind::kInput,
              {.what = what, .where = "step " + std::to_string(batch.step), .remedy = remedy});
}

void require_same_parameters(const RankStages& stages) {
  for (const auto& stage : stages.stages()) {
    std::set<const void*> of_modules;
    for (const auto& module : stage->chunk().modules()) {
      for (const at::Tensor& parameter : module->parameters(/*recurse=*/false))
        of_modules.insert(parameter.unsafeGetTensorImpl());
    }
    for (const ParameterInfo& parameter : stage->parameters()) {
      if (of_modules.contains(parameter.tensor.unsafeGetTensorImpl())) continue;
      throw Error(ErrorKind::kUsage,
                  {.what = "parameter '" + parameter.name + "' was replaced by another tensor",
                   .where = "stage " + std::to_string(stage->index()),
                   .remedy = "write into it (copy_) or make a new pipeline"});
    }
  }
}

void require_divisor(const char* call, const std::optional<GradientScale>& scale) {
  if (!scale || scale->kind != GradientScale::kDivisor) return;
  const double divisor = scale->divisor;
  if (divisor >= detail::kLeastDivisor && divisor <= detail::kMostDivisor) return;
  throw Error(ErrorKind::kUsage,
              {.what = "the divisor is " + shortest(divisor),
               .where = call,
               .remedy = "give a number from " + shortest(detail::kLeastDivisor) + " to " +
                         shortest(detail::kMostDivisor)});
}

void require_no_scale(const char* call, const std::optional<GradientScale>& scale) {
  if (!scale) return;
  throw Error(ErrorKind::kUsage,
              {.what = "a scale of gradients is given, but there are no gradients",
               .where = call,
               .remedy = "leave StepOptions::scale out"});
}

LossFunction with_graph(LossFunction loss) {
  return [loss = std::move(loss)](const Values& outputs, const Values& batch) {
    LossValue value = loss(outputs, batch);
    const bool has_graph = value.loss.defined() && value.loss.requires_grad();
    if (!at::GradMode::is_enabled() || value.count == 0 || has_graph) return value;
    throw Error(ErrorKind::kUsage,
                {.what = "the loss depends on nothing that is trained",
                 .where = "Model::loss",
                 .remedy = "make it of the model's outputs, without detach() or item()"});
  };
}

void require_callers_update(const Plan& plan, const char* call) {
  if (plan.options.step_end == StepEnd::kGradients) return;
  throw Error(ErrorKind::kUsage,
              {.what = "the plan's steps end with an update (StepEnd::kUpdate)",
               .where = call,
               .remedy = "step with a sluice::Trainer of this pipeline, or plan with "
                         "StepEnd::kGradients"});
}

void require_something_trains(const RankModel& rank) {
  if (!rank.parameters.empty()) return;
  throw Error(ErrorKind::kUsage, {.what = "every parameter of the model is frozen",
                                  .where = "train_step",
                                  .remedy = "leave requires_grad on something in LayerSpec::make"});
}

void require_gradients(const char* call) {
  const bool records = at::GradMode::is_enabled() && !c10::InferenceMode::is_enabled();
  if (records) return;
  throw Error(ErrorKind::kUsage,
              {.what = "gradients are switched off on this thread",
               .where = call,
               .remedy = "call it outside of torch::NoGradGuard and c10::InferenceMode"});
}

void require_reduction(const GradientReduction& reduction, const Plan& plan) {
  const auto refuse = [](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage,
                {.what = what, .where = "RunOptions::reduction", .remedy = remedy});
  };
  if (!reduction.reduce && reduction.per_microbatch)
    refuse("per_microbatch is set without a hook", "set `reduce`, too");
  const HookedReduction hooked = hooked_reduction(reduction);
  const DataParallel& how = plan.options.data_parallel;
  const int degree = how.degree;
  if (degree > 1 && hooked != HookedReduction::kNone && (how.zero1 || how.zero3))
    refuse(std::string("a hook reduces gradients, but with ") + (how.zero3 ? "zero3" : "zero1") +
               " each replica has only those of its own blocks",
           "leave the hook out, or plan one replica");
  if (degree > 1 && hooked != HookedReduction::kNone)
    refuse("a hook reduces gradients, and so do the " + counted(degree, "replica") + " of the plan",
           "leave the hook out, or plan one replica");
  if (hooked != plan.options.hooked_reduction)
    refuse(reduction.reduce ? "a hook reduces gradients, but the plan has no hooked reduction"
                            : "the plan reduces gradients by a hook, but there is none",
           "set PipelineOptions::hooked_reduction and RunOptions::reduction alike");
  if (!reduction.reduce) return;
  for (const std::vector<Action>& row : plan.schedule.rows) {
    for (const Action& action : row) {
      if (action.kind != ActionKind::kReduceGrad) continue;
      if ((action.microbatch >= 0) == reduction.per_microbatch) continue;
      refuse(formatted("the schedule has '{}', but per_microbatch is {}", to_text(action),
                       reduction.per_microbatch ? "on" : "off"),
             "set both alike, or leave REDUCE_GRAD out of the schedule");
    }
  }
}

void require_planned_training(const Plan& plan, const RankStages& stages) {
  std::map<std::string, bool> planned;
  for (const LayerInfo& layer : plan.model.layers) {
    if (plan.model.family.empty() && !layer.parameters_known) continue;
    for (const ParameterSpec& parameter : layer.parameters)
      planned[parameter.name] = parameter.trainable;
  }
  for (const auto& stage : stages.stages()) {
    for (const ParameterInfo& parameter : stage->parameters()) {
      const auto known = planned.find(parameter.name);
      if (known == planned.end() || known->second == parameter.trainable) continue;
      throw Error(ErrorKind::kUsage,
                  {.what = formatted("the plan {} '{}', but its layer {} it",
                                     known->second ? "trains" : "freezes", parameter.name,
                                     known->second ? "freezes" : "trains"),
                   .where = "stage " + std::to_string(stage->index()),
                   .remedy = "let LayerSpec::make set requires_grad as in the plan's model"});
    }
  }
}

}  // namespace sluice
