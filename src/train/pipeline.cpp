#include "sluice/pipeline.h"

#include <ATen/core/grad_mode.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/text.h"
#include "comm/gather_messages.h"
#include "sluice/error.h"
#include "sluice/parts/build_stages.h"
#include "sluice/parts/describe.h"
#include "sluice/parts/gradient_norm.h"
#include "sluice/parts/transport.h"
#include "train/evaluation_mode.h"
#include "train/parameter_list.h"
#include "train/split_inputs.h"
#include "train/step_norm.h"
#include "train/step_runner.h"

namespace sluice {
namespace {

StepBatch make_batch(const Inputs& inputs, const Model& model, int num_microbatches,
                     std::int64_t step) {
  StepBatch batch;
  batch.step = step;
  for (Values& values : split_inputs(inputs, model, num_microbatches)) {
    batch.counts.push_back(model.count ? model.count(values) : count_rows(values));
    batch.microbatches.push_back(std::move(values));
  }
  return batch;
}

Transport& require_fits(const Plan& plan, Transport& transport) {
  if (transport.size() == plan.program.num_ranks()) return transport;
  throw Error(ErrorKind::kUsage,
              {.what = "the plan has " + counted(plan.program.num_ranks(), "rank") +
                       ", the transport " + std::to_string(transport.size()),
               .where = "Pipeline",
               .remedy = "make as many endpoints as the plan has ranks"});
}

// Collective. What all ranks have to say alike.
void require_agreement(const Group& world, const StepBatch& batch, const char* call) {
  WireWriter own;
  own.add(std::string(call)).add(batch.counts);
  std::vector<WireReader> messages = gather_messages(world, own, "batch of a step");
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto their_call = messages[rank].take<std::string>();
    const auto counts = messages[rank].take<std::vector<std::int64_t>>();
    messages[rank].finish();
    if (their_call == call && counts == batch.counts) continue;
    throw Error(
        ErrorKind::kUsage,
        {.what = their_call == call ? "the batches of ranks " + std::to_string(rank) + " and " +
                                          std::to_string(world.rank()) +
                                          " fall into microbatches that count otherwise"
                                    : "rank " + std::to_string(rank) + " called " + their_call,
         .where = std::string(call) + " on rank " + std::to_string(world.rank()),
         .remedy = "make the same calls with the same batch on every rank"});
  }
}

void require_counted(const StepBatch& batch) {
  if (std::any_of(batch.counts.begin(), batch.counts.end(), [](auto count) { return count > 0; }))
    return;
  throw Error(ErrorKind::kInput, {.what = "nothing is counted in the step's batch",
                                  .where = "step " + std::to_string(batch.step),
                                  .remedy = "give every step something that Model::count counts"});
}

}  // namespace

struct Pipeline::Impl {
  const Model& model;
  const Plan& plan;
  Transport& transport;
  const RunOptions options;
  const Group world;
  RankStages stages;
  std::vector<SharedParameter> shared;
  std::vector<ExecutorObserver*> observers;
  std::optional<StepRunner> training;
  std::map<int, StepRunner> evaluation;  // by number of microbatches
  std::int64_t step = 0;

  Impl(const Model& the_model, const Plan& the_plan, Transport& the_transport,
       RunOptions the_options)
      : model(the_model),
        plan(the_plan),
        transport(require_fits(plan, the_transport)),
        options(std::move(the_options)),
        world(transport.world()),
        stages(build_stages(model, plan.partition, transport.rank(), {options.backward_of})) {
    if (!model.loss) {
      throw Error(
          ErrorKind::kUsage,
          {.what = "the model has no loss", .where = "Pipeline", .remedy = "set Model::loss"});
    }
    if (options.observers) observers = options.observers(transport.rank());
    stages.draw_weights(options.seed);
    shared = list_parameters(stages.pointers(), world, plan.program.mesh);
    for (const SharedParameter& parameter : shared) begin_alike(parameter);
  }

  // Whatever the layers of a tie have drawn, all have the value of its first use.
  void begin_alike(const SharedParameter& parameter) {
    if (!parameter.group) return;
    const at::NoGradGuard no_grad;
    const auto owner = std::find(parameter.ranks.begin(), parameter.ranks.end(), parameter.owner());
    at::Tensor value = parameter.local_use()->value().detach();
    value.copy_(
        parameter.group.broadcast(value.clone(), static_cast<int>(owner - parameter.ranks.begin()))
            .wait());
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
    return stage_backwards(describe(model.layers), plan.partition, layer_trains, model.outputs);
  }

  StepRunner& training_runner() {
    if (!training) {
      LowerOptions lowering;
      lowering.backwards = backwards();
      lowering.tie_groups = plan.partition.tie_groups;
      lowering.loss = true;
      training.emplace(lower(plan.schedule, lowering), stages, shared, transport, model, options,
                       observers);
    }
    return *training;
  }

  StepRunner& evaluation_runner(int num_microbatches) {
    const auto found = evaluation.find(num_microbatches);
    if (found != evaluation.end()) return found->second;
    LowerOptions lowering;
    lowering.forward_only = true;
    lowering.loss = true;
    const Schedule schedule = make_forward_schedule(plan.program.stage_map, num_microbatches);
    return evaluation
        .emplace(std::piecewise_construct, std::tuple(num_microbatches),
                 std::forward_as_tuple(lower(schedule, lowering), stages, shared, transport, model,
                                       options, observers))
        .first->second;
  }

  // What is thrown before the executor runs would leave the other ranks waiting.
  template <typename Step>
  StepResult waking_others(Step step) {
    try {
      return step();
    } catch (const Error& error) {
      transport.abort({transport.rank(), error.kind(), error.what()});
      throw;
    }
  }

  // The sums of this step join what earlier steps have left in `.grad`.
  void add_to_grads() {
    const at::NoGradGuard no_grad;
    training->finish_ties();
    for (const SharedParameter& parameter : shared) {
      const ParameterUse* use = parameter.local_use();
      if (!use || !use->gradient().defined()) continue;
      at::Tensor& grad = use->value().mutable_grad();
      if (grad.defined()) {
        grad.add_(use->gradient());
      } else {
        grad = use->gradient().to(use->value().scalar_type());
      }
    }
    for (const auto& stage : stages.stages()) stage->clear_gradients();
  }
};

Pipeline::Pipeline(const Model& model, const Plan& plan, Transport& transport, RunOptions options)
    : impl_(std::make_unique<Impl>(model, plan, transport, std::move(options))) {}
Pipeline::~Pipeline() = default;

StepResult Pipeline::train_step(const Inputs& inputs, const StepOptions& options) {
  return impl_->waking_others([&] {
    const int planned = impl_->plan.schedule.num_microbatches;
    const int possible = num_microbatches_of(inputs, impl_->model, planned);
    if (possible != planned) {
      throw Error(
          ErrorKind::kInput,
          {.what = "the batch falls into " + counted(possible, "microbatch") +
                   ", the schedule has " + std::to_string(planned),
           .where = "train_step",
           .remedy = "give at least one row a microbatch, or plan with num_microbatches = " +
                     std::to_string(possible)});
    }
    const StepBatch batch = make_batch(inputs, impl_->model, planned, impl_->step + 1);
    require_counted(batch);
    require_agreement(impl_->world, batch, "train_step");
    ++impl_->step;
    StepResult result = impl_->training_runner().run(batch, options);
    impl_->add_to_grads();
    return result;
  });
}

StepResult Pipeline::eval_step(const Inputs& inputs, const StepOptions& options) {
  return impl_->waking_others([&] {
    const int num_microbatches =
        num_microbatches_of(inputs, impl_->model, impl_->plan.schedule.num_microbatches);
    const StepBatch batch = make_batch(inputs, impl_->model, num_microbatches, impl_->step);
    require_counted(batch);
    require_agreement(impl_->world, batch, "eval_step");
    const EvaluationMode mode(impl_->stages);
    return impl_->evaluation_runner(num_microbatches).run(batch, options);
  });
}

std::vector<at::Tensor> Pipeline::parameters() const {
  std::vector<at::Tensor> parameters;
  for (const SharedParameter& parameter : impl_->shared) {
    if (const ParameterUse* use = parameter.local_use()) parameters.push_back(use->value());
  }
  return parameters;
}

std::vector<std::pair<std::string, at::Tensor>> Pipeline::local_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  std::set<std::string> seen;
  for (const auto& stage : impl_->stages.stages()) {
    for (const ParameterInfo& info : stage->parameters()) {
      const std::string& name = info.tied_to.empty() ? info.name : info.tied_to;
      if (seen.insert(name).second) parameters.emplace_back(name, info.tensor);
    }
  }
  return parameters;
}

std::vector<std::pair<std::string, at::Tensor>> Pipeline::local_state_dict() const {
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (const auto& [name, tensor] : local_parameters()) state.emplace_back(name, tensor.detach());
  for (const auto& stage : impl_->stages.stages()) {
    for (const auto& [name, tensor] : stage->chunk().buffers()) state.emplace_back(name, tensor);
  }
  return state;
}

void Pipeline::load_state_dict(const std::vector<std::pair<std::string, at::Tensor>>& state) {
  const at::NoGradGuard no_grad;
  const auto refuse = [](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage,
                {.what = what, .where = "Pipeline::load_state_dict", .remedy = remedy});
  };
  std::map<std::string, at::Tensor> given(state.begin(), state.end());
  std::vector<std::string> names;
  names.reserve(given.size());
  for (const auto& [name, tensor] : given) names.push_back(name);
  const auto own = local_state_dict();
  // All is checked before anything is written.
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    if (found == given.end()) refuse("'" + name + "' is missing", suggest_name(name, names));
    if (found->second.sizes() != tensor.sizes()) {
      refuse("'" + name + "' is " + to_text(meta_of(found->second)) + ", not " +
                 to_text(meta_of(tensor)),
             "give the state of the same model");
    }
  }
  for (const auto& [name, tensor] : own) tensor.copy_(given.at(name));
}

double Pipeline::clip_grad_norm(double max_norm) {
  const at::NoGradGuard no_grad;
  const GradientNorms norms =
      post_gradient_norms(impl_->shared, impl_->world, [](const ParameterUse& use) {
        return use.value().grad();
      }).wait();
  const double coefficient = clip_coefficient(norms.total, max_norm);
  if (coefficient != 1.0) {
    for (const at::Tensor& parameter : parameters()) {
      if (parameter.grad().defined()) parameter.mutable_grad().mul_(coefficient);
    }
  }
  return norms.total;
}

void Pipeline::zero_grad() {
  for (const at::Tensor& parameter : parameters()) parameter.mutable_grad().reset();
}

void Pipeline::check(const torch::optim::Optimizer& optimizer) const {
  std::set<const void*> own;
  for (const at::Tensor& parameter : parameters()) own.insert(parameter.unsafeGetTensorImpl());
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (own.contains(parameter.unsafeGetTensorImpl())) continue;
      throw Error(ErrorKind::kUsage,
                  {.what = "the optimizer holds a parameter, " + to_text(meta_of(parameter)) +
                           ", that is not one of this rank's pipeline",
                   .where = "Pipeline::check on rank " + std::to_string(rank()),
                   .remedy = "make the optimizer after the pipeline, of pipeline.parameters()"});
    }
  }
}

int Pipeline::rank() const { return impl_->transport.rank(); }
int Pipeline::num_ranks() const { return impl_->transport.size(); }
std::uint64_t Pipeline::seed() const { return impl_->options.seed; }
const Plan& Pipeline::plan() const { return impl_->plan; }
std::vector<Stage*> Pipeline::stages() const { return impl_->stages.pointers(); }
const Group& Pipeline::world() const { return impl_->world; }
bool Pipeline::has_first_stage() const {
  return impl_->plan.program.stage_map.rank_of(0) == rank();
}
bool Pipeline::has_last_stage() const {
  return impl_->plan.program.stage_map.rank_of(impl_->plan.program.num_stages() - 1) == rank();
}

}  // namespace sluice
