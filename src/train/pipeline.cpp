#include "sluice/pipeline.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/text.h"
#include "plan/data_parallel.h"
#include "run/autocast.h"
#include "run/auxiliary_values.h"
#include "run/fault_injection.h"
#include "run/out_of_memory.h"
#include "sluice/error.h"
#include "sluice/parts/build_stages.h"
#include "sluice/parts/describe.h"
#include "sluice/parts/gradient_norm.h"
#include "sluice/parts/log.h"
#include "sluice/parts/transport.h"
#include "train/agreement.h"
#include "train/begin_alike.h"
#include "train/evaluator.h"
#include "train/grads.h"
#include "train/parameter_list.h"
#include "train/pipeline_checkpoint.h"
#include "train/running_step.h"
#include "train/split_inputs.h"
#include "train/step_checks.h"
#include "train/step_norm.h"
#include "train/step_runner.h"

namespace sluice {
namespace {

StepBatch make_batch(const BatchSplit& split, const Model& model, int num_microbatches,
                     std::int64_t step, const StepOptions& options) {
  if (!model.count) split.require_row_count();
  StepBatch batch;
  batch.step = step;
  batch.scale = options.scale;
  for (Values& values : split.microbatches(num_microbatches)) {
    batch.counts.push_back(model.count ? model.count(values) : count_rows(values));
    batch.microbatches.push_back(std::move(values));
  }
  return batch;
}

void require_counted(const StepBatch& batch) {
  require_counted(batch, "nothing is counted in the step's batch",
                  "give every step something that Model::count counts");
}

void require_replicas(const Plan& plan, const GradientReduction& reduction) {
  const DataParallel& how = plan.data_parallel;
  require_planned_replicas(plan.program.mesh, how, "Plan::data_parallel");
  if (how.degree == 1) return;
  if (how.zero1 || how.zero3) {
    throw Error(ErrorKind::kUsage,
                {.what = std::string(how.zero3 ? "zero3" : "zero1") +
                         " needs Trainer: here the optimizer is the caller's, and has whole "
                         "parameters",
                 .where = "Plan::data_parallel",
                 .remedy = "leave zero1 and zero3 off, or train with sluice::Trainer"});
  }
  if (!reduction.reduce) return;
  throw Error(ErrorKind::kUsage, {.what = "a hook reduces gradients, and so do the " +
                                          counted(how.degree, "replica") + " of the plan",
                                  .where = "RunOptions::reduction",
                                  .remedy = "leave the hook out, or plan one replica"});
}

}  // namespace

struct Pipeline::Impl {
  const std::thread::id thread = std::this_thread::get_id();  // the rank's
  const Model& model;
  const Plan& plan;
  Transport& transport;
  const RunOptions options;
  const Group world;
  const RunGroups groups;
  RankStages stages;
  std::vector<SharedParameter> shared;
  const std::unique_ptr<FaultInjector> faults;  // of SLUICE_FAULT
  std::vector<ExecutorObserver*> observers;
  Grads grads{shared, transport.size() > 1};
  ModelEnd end{model};
  std::map<bool, StepRunner> training;  // by whether outputs are gathered
  std::optional<Evaluator> evaluation;
  std::int64_t step = 0;
  bool gave_parameters = false;  // an optimizer may hold them
  std::set<std::string> compared_calls;
  bool warned_of_loss = false;

  Impl(const Model& the_model, const Plan& the_plan, Transport& the_transport,
       RunOptions the_options)
      : model(the_model),
        plan(the_plan),
        transport(require_fits(plan, the_transport)),
        options(std::move(the_options)),
        world(transport.world()),
        groups(make_run_groups(world, plan.program.mesh)),
        stages(
            build_stages(model, plan.partition, groups.place(),
                         {.backward_of = options.backward_of,
                          .parallelize = options.parallelize,
                          .axis_names = options.axis_names,
                          .mesh = plan.program.mesh,
                          .groups = options.parallelize ? make_axis_groups(world, plan.program.mesh)
                                                        : std::map<Axis, Group>(),
                          .replica = groups.replica})),
        faults(injected_faults(transport.rank(), transport.size())) {
    require_replicas(plan, options.reduction);
    require_divisor("RunOptions::scale", options.scale);
    require_reduction(options.reduction, plan.schedule);
    if (!model.loss) {
      throw Error(
          ErrorKind::kUsage,
          {.what = "the model has no loss", .where = "Pipeline", .remedy = "set Model::loss"});
    }
    if (model.auxiliary.empty()) end.loss = with_graph(model.loss);
    if (options.observers) observers = options.observers(transport.rank());
    if (faults) observers.push_back(faults.get());
    require_planned_training(plan, stages);
    stages.draw_weights(options.seed);
    begin_alike(stages.pointers(), groups, static_cast<bool>(model.initialization.module));
    shared =
        list_parameters(stages.pointers(), groups.pipeline, Mesh({.pp = groups.pipeline.size()}));
  }

  // By what the layers' factories have left to train, which the plan need not know.
  std::vector<StageBackward> backwards() const {
    std::vector<bool> layer_trains(model.layers.size());
    for (const SharedParameter& parameter : shared) {
      for (const ParameterUse& use : parameter.uses) layer_trains[use.layer] = true;
    }
    if (shared.empty()) {
      throw Error(ErrorKind::kUsage,
                  {.what = "every parameter of the model is frozen",
                   .where = "train_step",
                   .remedy = "leave requires_grad on something in LayerSpec::make"});
    }
    // Where backwards begin.
    std::vector<std::string> roots = model.outputs;
    for (const LayerSpec& layer : model.layers) {
      for (const std::string& name : layer.writes) {
        if (is_auxiliary(model, name)) roots.push_back(name);
      }
    }
    return stage_backwards(describe(model.layers), plan.partition, layer_trains, roots);
  }

  StepRunner& training_runner(bool gathers_outputs) {
    const auto found = training.find(gathers_outputs);
    if (found != training.end()) return found->second;
    LowerOptions lowering;
    lowering.backwards = backwards();
    lowering.tie_groups = plan.partition.tie_groups;
    lowering.loss = true;
    lowering.outputs = gathers_outputs;
    lowering.reduce_gradients = static_cast<bool>(options.reduction.reduce);
    lowering.reduce_per_microbatch = options.reduction.per_microbatch;
    detail::set_lowering(plan.data_parallel, lowering);
    Program program = lower(plan.schedule, lowering);
    program.mesh = plan.program.mesh;
    return training
        .emplace(std::piecewise_construct, std::tuple(gathers_outputs),
                 std::forward_as_tuple(std::move(program), stages, shared, transport, groups, end,
                                       options, observers, plan.data_parallel))
        .first->second;
  }

  Evaluator& evaluator() {
    if (!evaluation)
      evaluation.emplace(plan.program, stages, transport, groups, end, options, observers);
    return *evaluation;
  }

  void require_own(const torch::optim::Optimizer& optimizer) {
    std::set<const void*> own;
    for (const SharedParameter& parameter : shared) {
      if (const ParameterUse* use = parameter.local_use())
        own.insert(use->value().unsafeGetTensorImpl());
    }
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        if (own.contains(parameter.unsafeGetTensorImpl())) continue;
        throw Error(ErrorKind::kUsage,
                    {.what = "the optimizer holds a parameter, " + to_text(meta_of(parameter)) +
                             ", that is not one of this rank's pipeline",
                     .where = "Pipeline::check on rank " + std::to_string(transport.rank()),
                     .remedy = "make the optimizer after the pipeline, of pipeline.parameters()"});
      }
    }
    grads.give_out();
  }

  PipelineState state() const {
    return {stages.pointers(), shared, world, step, options.seed, groups.replica == 0};
  }

  // Among replicas one may have nothing that counts.
  void agree_on(StepBatch& batch, const StepOptions& step_options, const char* call) {
    if (groups.num_replicas == 1) require_counted(batch);
    const bool is_first = compared_calls.insert(call).second;
    agree(groups, batch, step_options, call, is_first ? Compared::kAll : Compared::kSome);
    if (groups.num_replicas > 1) require_counted(batch);
  }

  // One rank for all, and once: what follows a loss that is not finite is none either.
  void warn_of_loss(double loss) {
    if (std::isfinite(loss) || transport.rank() != 0 || std::exchange(warned_of_loss, true)) return;
    log_warning("the loss of step " + std::to_string(step) + " is " +
                (std::isnan(loss) ? "nan" : std::to_string(loss)) +
                "; Pipeline::train_step goes on: look at StepResult::loss, and stop there");
  }

  // What is thrown before the executor runs would leave the other ranks waiting.
  template <typename Body>
  auto waking_others(const char* call, Body body) {
    require_thread(thread, call);
    try {
      const RunningStep running(call);
      return body();
    } catch (...) {
      const Error error = caught_error();
      transport.abort({transport.rank(), error.kind(), error.what()});
      throw;
    }
  }

  std::vector<std::pair<std::string, at::Tensor>> local_parameters() const {
    std::vector<std::pair<std::string, at::Tensor>> parameters;
    std::set<std::string> seen;
    for (const auto& stage : stages.stages()) {
      for (const ParameterInfo& info : stage->parameters()) {
        const std::string& name = info.tied_to.empty() ? info.name : info.tied_to;
        if (seen.insert(name).second) parameters.emplace_back(name, info.tensor);
      }
    }
    return parameters;
  }

  // The sums of this step join what earlier steps have left in `.grad`.
  void add_to_grads(StepRunner& runner) {
    runner.finish_ties();
    grads.add_step();
    for (const auto& stage : stages.stages()) stage->clear_gradients();
  }
};

Pipeline::Pipeline(const Model& model, const Plan& plan, Transport& transport, RunOptions options)
    : impl_(std::make_unique<Impl>(model, plan, transport, std::move(options))) {}
Pipeline::~Pipeline() = default;

StepResult Pipeline::train_step(const Inputs& inputs, const StepOptions& options) {
  return impl_->waking_others("Pipeline::train_step", [&] {
    const AutocastScope autocast(impl_->options.autocast);
    require_divisor("Pipeline::train_step", options.scale);
    require_gradients("Pipeline::train_step");
    require_same_parameters(impl_->stages);
    const BatchSplit split(inputs, impl_->model);
    split.require_no_gradient();
    const int planned = impl_->plan.schedule.num_microbatches;
    const int possible = split.num_microbatches(planned);
    if (possible != planned) {
      throw Error(
          ErrorKind::kInput,
          {.what = "the batch falls into " + counted(possible, "microbatch") +
                   ", the schedule has " + std::to_string(planned),
           .where = "train_step",
           .remedy = "give at least one row a microbatch, or plan with num_microbatches = " +
                     std::to_string(possible)});
    }
    StepBatch batch = make_batch(split, impl_->model, planned, impl_->step + 1, options);
    impl_->agree_on(batch, options, "train_step");
    impl_->grads.require_asked_for(impl_->transport.rank());
    ++impl_->step;
    StepRunner& runner = impl_->training_runner(options.outputs == OutputRanks::kAll);
    StepResult result = runner.run(batch, options);
    impl_->add_to_grads(runner);
    impl_->warn_of_loss(result.loss);
    return result;
  });
}

StepResult Pipeline::eval_step(const Inputs& inputs, const StepOptions& options) {
  return impl_->waking_others("Pipeline::eval_step", [&] {
    const AutocastScope autocast(impl_->options.autocast);
    require_no_scale("Pipeline::eval_step", options.scale);
    require_same_parameters(impl_->stages);
    const BatchSplit split(inputs, impl_->model);
    const int num_microbatches = split.num_microbatches(impl_->plan.schedule.num_microbatches);
    StepBatch batch = make_batch(split, impl_->model, num_microbatches, impl_->step, options);
    impl_->agree_on(batch, options, "eval_step");
    return impl_->evaluator().run(batch, options);
  });
}

void Pipeline::to(at::Device device) {
  require_no_step("Pipeline::to");
  if (impl_->gave_parameters || !impl_->training.empty() || impl_->evaluation) {
    throw Error(ErrorKind::kUsage,
                {.what = impl_->gave_parameters ? "parameters() were asked for already"
                                                : "the pipeline has made a step already",
                 .where = "Pipeline::to on rank " + std::to_string(rank()),
                 .remedy = "move it first, then make the optimizer of pipeline.parameters()"});
  }
  impl_->stages.to(device);
}

std::vector<at::Tensor> Pipeline::parameters() const {
  require_no_step("Pipeline::parameters");
  impl_->gave_parameters = true;
  impl_->grads.give_out();
  std::vector<at::Tensor> parameters;
  for (const SharedParameter& parameter : impl_->shared) {
    if (const ParameterUse* use = parameter.local_use()) parameters.push_back(use->value());
  }
  return parameters;
}

std::vector<std::pair<std::string, at::Tensor>> Pipeline::local_parameters() const {
  require_no_step("Pipeline::local_parameters");
  impl_->grads.give_out();
  return impl_->local_parameters();
}

std::vector<std::pair<std::string, at::Tensor>> Pipeline::local_state_dict() const {
  require_no_step("Pipeline::local_state_dict");
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (const auto& [name, tensor] : impl_->local_parameters())
    state.emplace_back(name, tensor.detach());
  // Stages of a whole module may have each their own of one name.
  for (const auto& stage : impl_->stages.stages()) {
    for (const auto& [name, tensor] : stage->chunk().buffers()) state.emplace_back(name, tensor);
  }
  return state;
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
  // All is checked before anything is written.
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
    // One for each stage that has its own, or one for all.
    const std::size_t at = num_seen[name]++;
    const bool for_each = of_name.size() == num_own[name];
    for (const at::Tensor& value : of_name) {
      if (for_each || at::equal(value, of_name.front())) continue;
      refuse("'" + name + "' comes with different values, " + std::to_string(of_name.size()) +
                 " of them, and this rank has " + std::to_string(num_own[name]),
             "give this rank's own state, or hold the buffer in a part of the module");
    }
    values.push_back(of_name[for_each ? at : 0]);
  }
  for (std::size_t i = 0; i < own.size(); ++i) at::Tensor(own[i].second).copy_(values[i]);
}

void Pipeline::save(const std::string& path, const SaveOptions& options) {
  const SaveOutcome outcome = impl_->waking_others("Pipeline::save", [&] {
    if (options.optimizer) impl_->require_own(*options.optimizer);
    require_call(impl_->world, "save");
    return save_pipeline(impl_->state(), path, options);
  });
  // All ranks know: they can go on.
  if (outcome.error) throw Error(*outcome.error);
}

LoadedState Pipeline::load(const std::string& path, torch::optim::Optimizer* optimizer) {
  return impl_->waking_others("Pipeline::load", [&] {
    if (optimizer) impl_->require_own(*optimizer);
    require_call(impl_->world, "load");
    LoadedState loaded = load_pipeline(impl_->state(), path, optimizer);
    impl_->step = loaded.step;
    return loaded;
  });
}

void Pipeline::scale_grads_by_divisor(double divisor) {
  require_no_step("Pipeline::scale_grads_by_divisor");
  require_divisor("Pipeline::scale_grads_by_divisor",
                  GradientScale(GradientScale::kDivisor, divisor));
  impl_->grads.scale(1.0 / divisor);
}

double Pipeline::clip_grad_norm(double max_norm) {
  require_thread(impl_->thread, "Pipeline::clip_grad_norm");
  require_no_step("Pipeline::clip_grad_norm");
  if (!(max_norm >= 0)) {
    throw Error(ErrorKind::kUsage, {.what = "a largest norm of " + std::to_string(max_norm),
                                    .where = "Pipeline::clip_grad_norm",
                                    .remedy = "give a number above 0, or 0 not to clip"});
  }
  require_call(impl_->world, "clip_grad_norm");
  const at::NoGradGuard no_grad;
  const GradientNorms norms =
      post_gradient_norms(impl_->shared, impl_->groups.pipeline, [&](const ParameterUse& use) {
        return impl_->grads.of(use);
      }).wait();
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

int Pipeline::rank() const { return impl_->transport.rank(); }
int Pipeline::num_ranks() const { return impl_->transport.size(); }
int Pipeline::replica() const { return impl_->groups.replica; }
int Pipeline::num_replicas() const { return impl_->groups.num_replicas; }
std::uint64_t Pipeline::seed() const { return impl_->options.seed; }
const Plan& Pipeline::plan() const { return impl_->plan; }
const Program& Pipeline::program() const {
  if (impl_->training.empty()) {
    throw Error(ErrorKind::kUsage, {.what = "no train_step() has run",
                                    .where = "Pipeline::program",
                                    .remedy = "call it after one, or use plan().program"});
  }
  return impl_->training.begin()->second.program();
}
std::vector<Stage*> Pipeline::stages() const {
  require_no_step("Pipeline::stages");
  impl_->grads.give_out();
  return impl_->stages.pointers();
}
std::vector<std::shared_ptr<torch::nn::Module>> Pipeline::modules() const {
  require_no_step("Pipeline::modules");
  impl_->grads.give_out();
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  for (const auto& stage : impl_->stages.stages()) {
    Chunk& chunk = stage->chunk();
    for (std::size_t i = 0; i < chunk.layers().size(); ++i)
      if (chunk.layers()[i].make) modules.push_back(chunk.module(i).shared_from_this());
  }
  return modules;
}
const Group& Pipeline::world() const { return impl_->world; }
bool Pipeline::has_first_stage() const {
  return impl_->plan.program.stage_map.rank_of(0) == impl_->groups.place();
}
bool Pipeline::has_last_stage() const {
  const int last = impl_->plan.program.num_stages() - 1;
  return impl_->plan.program.stage_map.rank_of(last) == impl_->groups.place();
}

}  // namespace sluice
