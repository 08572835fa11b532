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

#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/gather_messages.h"
#include "engine/autocast.h"
#include "engine/out_of_memory.h"
#include "layer/split_inputs.h"
#include "optim/gradient_norm.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"
#include "sluice/parts/transport.h"
#include "train/pipeline_impl.h"
#include "train/state_dict.h"
#include "train/step_checks.h"
#include "train/step_norm.h"

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

// The loss gets the inputs that no layer reads.
Model without_labels(Model model) {
  std::set<std::string> read;
  for (const LayerSpec& layer : model.layers) read.insert(layer.reads.begin(), layer.reads.end());
  for (const std::string& name : model.inputs) {
    if (!read.contains(name)) model.optional_inputs.push_back(name);
  }
  return model;
}

void require_counted(const StepBatch& batch) {
  require_counted(batch, "nothing is counted in the step's batch",
                  "give every step something that Model::count counts");
}

}  // namespace

StepBatch Pipeline::Impl::training_batch(const Inputs& inputs, const StepOptions& options,
                                         const char* call, const std::string& said) {
  require_divisor(call, options.scale);
  require_gradients(call);
  require_same_parameters(engine.rank().stages);
  const BatchSplit split(inputs, model);
  split.require_no_gradient();
  const int planned = engine.plan().schedule.num_microbatches;
  const int possible = split.num_microbatches(planned);
  if (possible != planned) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("the batch falls into {}, the schedule has {}",
                                   counted(possible, "microbatch"), planned),
                 .where = "train_step",
                 .remedy = "give at least one row a microbatch, or plan with num_microbatches = " +
                           std::to_string(possible)});
  }
  StepBatch batch = make_batch(split, model, planned, step + 1, options);
  agree_on(batch, options, "train_step", said);
  ++step;
  return batch;
}

// Among replicas one may have nothing that counts.
void Pipeline::Impl::agree_on(StepBatch& batch, const StepOptions& options, const char* call,
                              const std::string& said) {
  const RunGroups& groups = engine.rank().groups;
  if (groups.num_replicas == 1) require_counted(batch);
  const bool is_first = compared_calls.insert(call).second;
  agree(groups, batch, options, said.c_str(), is_first ? Compared::kAll : Compared::kSome);
  if (groups.num_replicas > 1) require_counted(batch);
}

void Pipeline::Impl::require_own(const torch::optim::Optimizer& optimizer) {
  callers.require_fits(optimizer, "Pipeline::check");
  grads.give_out();
}

void Pipeline::Impl::require_own(const char* call,
                                 const std::vector<const torch::optim::Optimizer*>& optimizers) {
  if (optimizers.empty()) return;
  require_callers_update(engine.plan(), call);
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
               "make each of other parameters");
      }
    }
  }
}

void Pipeline::Impl::require_whole(const char* call) const {
  if (!engine.rank().sharded) return;
  throw Error(ErrorKind::kUsage,
              {.what = "with zero3 a rank has its replica's own blocks, no whole parameters",
               .where = call,
               .remedy = "named_parameters() gives the blocks, save() and state() gather, "
                         "load_weights() and load() fill"});
}

void Pipeline::Impl::give_out_whole() {
  if (!callers.are_blocks()) grads.give_out();
}

Work<GradientNorms> Pipeline::Impl::post_norms() {
  const RankModel& rank = engine.rank();
  if (!callers.are_blocks()) {
    return post_gradient_norms(rank.parameters, rank.groups.pipeline,
                               [&](const ParameterUse& use) { return grads.of(use); });
  }
  return post_block_norms(rank.parameters, rank.groups, rank.mesh, [&](const ParameterUse& use) {
    const at::Tensor gradient = grads.of(use);
    return gradient.defined() ? gradient.detach().reshape({-1}) : gradient;
  });
}

PipelineState Pipeline::Impl::state() {
  return {.engine = engine, .parameters = callers, .world = world, .step = step};
}

void Pipeline::Impl::warn_of_loss(double loss) {
  if (std::isfinite(loss) || transport.rank() != 0 || std::exchange(warned_of_loss, true)) return;
  log_warning(
      formatted("the loss of step {} is {}; Pipeline::train_step goes on: look at "
                "StepResult::loss, and stop there",
                step, std::isnan(loss) ? "nan" : std::to_string(loss)));
}

std::vector<std::pair<std::string, at::Tensor>> Pipeline::Impl::local_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  std::set<std::string> seen;
  for (const auto& stage : engine.rank().stages.stages()) {
    for (const ParameterInfo& info : stage->parameters()) {
      const std::string& name = info.tied_to.empty() ? info.name : info.tied_to;
      if (seen.insert(name).second) parameters.emplace_back(name, info.tensor);
    }
  }
  return parameters;
}

Pipeline::Pipeline(const Model& model, const Plan& plan, Transport& transport, RunOptions options)
    : impl_(std::make_unique<Impl>(model, plan, transport, std::move(options))) {}
Pipeline::~Pipeline() = default;

Pipeline::Pipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<Pipeline::Impl> Pipeline::drafted(const Model& model, Plan draft,
                                                  Transport& transport, const RunOptions& options) {
  return std::make_unique<Impl>(model, DraftedPlan{std::move(draft)}, transport, options);
}

StepResult Pipeline::train_step(const Inputs& inputs, const StepOptions& options) {
  return impl_->waking_others("Pipeline::train_step", [&] {
    PipelineRank& engine = impl_->engine;
    require_callers_update(engine.plan(), "Pipeline::train_step");
    require_something_trains(engine.rank());
    impl_->callers.require_settled("Pipeline::train_step");
    const AutocastScope autocast(engine.options().autocast);
    const StepBatch batch = impl_->training_batch(inputs, options, "Pipeline::train_step");
    impl_->grads.require_asked_for(impl_->transport.rank());
    StepResult result = engine.train(batch, options);
    // The sums of this step join what earlier steps have left in `.grad`.
    engine.finish_ties();
    impl_->grads.add_step();
    for (const auto& stage : engine.rank().stages.stages()) stage->clear_gradients();
    impl_->warn_of_loss(result.loss);
    return result;
  });
}

StepResult Pipeline::eval_step(const Inputs& inputs, const StepOptions& options) {
  return impl_->waking_others("Pipeline::eval_step", [&] {
    PipelineRank& engine = impl_->engine;
    const AutocastScope autocast(engine.options().autocast);
    require_no_scale("Pipeline::eval_step", options.scale);
    impl_->callers.require_settled("Pipeline::eval_step");
    require_same_parameters(engine.rank().stages);
    const BatchSplit split(inputs, impl_->model);
    const int num_microbatches = split.num_microbatches(engine.plan().schedule.num_microbatches);
    StepBatch batch = make_batch(split, impl_->model, num_microbatches, impl_->step, options);
    impl_->agree_on(batch, options, "eval_step", "eval_step");
    return engine.evaluate(batch, options);
  });
}

std::vector<Values> Pipeline::predict(const Inputs& inputs, OutputRanks ranks) {
  return impl_->waking_others("Pipeline::predict", [&] {
    PipelineRank& engine = impl_->engine;
    const AutocastScope autocast(engine.options().autocast);
    require_same_parameters(engine.rank().stages);
    impl_->callers.require_settled("Pipeline::predict");
    const Model unlabelled = without_labels(impl_->model);
    const BatchSplit split(inputs, unlabelled);
    const int num_microbatches = split.num_microbatches(engine.plan().schedule.num_microbatches);
    StepBatch batch;
    batch.step = impl_->step;
    for (Values& values : split.microbatches(num_microbatches)) {
      batch.microbatches.push_back(std::move(values));
      batch.counts.push_back(0);
    }
    const StepOptions options{.outputs = ranks};
    const bool is_first = impl_->compared_calls.insert("predict").second;
    agree(engine.rank().groups, batch, options, "predict",
          is_first ? Compared::kAll : Compared::kSome);
    return engine.predict(batch, ranks);
  });
}

void Pipeline::step(torch::optim::Optimizer& optimizer) {
  impl_->waking_others("Pipeline::step", [&] {
    PipelineRank& engine = impl_->engine;
    require_callers_update(engine.plan(), "Pipeline::step");
    require_no_closure(optimizer, "Pipeline::step");
    impl_->callers.require_fits(optimizer, "Pipeline::step");
    impl_->callers.require_settled("Pipeline::step");
    impl_->grads.give_out();
    require_call(impl_->world, "step");
    engine.update([&] { optimizer.step(); }, impl_->step);
    impl_->callers.settle();
  });
}

std::vector<MicrobatchLoss> Pipeline::evaluate(const StepBatch& batch) {
  impl_->callers.require_settled("Pipeline::evaluate");
  impl_->engine.evaluate(batch, {});
  return impl_->engine.evaluated_losses();
}

void Pipeline::to(at::Device device) {
  require_no_step("Pipeline::to");
  if (impl_->gave_parameters || impl_->engine.has_run()) {
    throw Error(ErrorKind::kUsage,
                {.what = impl_->gave_parameters ? "parameters() were asked for already"
                                                : "the pipeline has made a step already",
                 .where = "Pipeline::to on rank " + std::to_string(rank()),
                 .remedy = "move it first, then make the optimizer of pipeline.parameters()"});
  }
  if (impl_->engine.update()) {
    throw Error(ErrorKind::kUsage, {.what = "the pipeline has a trainer already",
                                    .where = "Pipeline::to on rank " + std::to_string(rank()),
                                    .remedy = "move it first, then make the trainer"});
  }
  impl_->require_whole("Pipeline::to");
  impl_->engine.rank().stages.to(device);
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

std::vector<std::pair<std::string, at::Tensor>> Pipeline::local_parameters() const {
  require_no_step("Pipeline::local_parameters");
  impl_->require_whole("Pipeline::local_parameters");
  impl_->give_out_whole();
  return impl_->local_parameters();
}

std::vector<ParameterInfo> Pipeline::named_parameters() const {
  require_no_step("Pipeline::named_parameters");
  impl_->grads.give_out();
  std::vector<ParameterInfo> all;
  const RankModel& rank = impl_->engine.rank();
  for (const auto& stage : rank.stages.stages()) {
    for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
      ParameterInfo& info = all.emplace_back(stage->parameters()[i]);
      const at::Tensor own = impl_->callers.of(info.name);
      if (own.defined() && impl_->callers.are_blocks())
        info.tensor = own;
      else if (rank.sharded && rank.sharded->is_sharded(stage->index(), i))
        info.tensor = rank.sharded->own(stage->index(), i);
    }
  }
  return all;
}

std::vector<std::pair<std::string, at::Tensor>> Pipeline::local_state_dict() const {
  require_no_step("Pipeline::local_state_dict");
  impl_->require_whole("Pipeline::local_state_dict");
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (const auto& [name, tensor] : impl_->local_parameters())
    state.emplace_back(name, tensor.detach());
  // Stages of a whole module may have each their own of one name.
  for (const auto& stage : impl_->engine.rank().stages.stages()) {
    for (const auto& [name, tensor] : stage->chunk().buffers()) state.emplace_back(name, tensor);
  }
  return state;
}

std::vector<std::pair<std::string, at::Tensor>> Pipeline::state_dict() const {
  return impl_->waking_others("Pipeline::state_dict", [&] {
    impl_->callers.require_settled("Pipeline::state_dict");
    require_call(impl_->world, "state_dict");
    return gather_state_dict(impl_->engine);
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
      refuse(formatted("'{}' comes with different values, {} of them, and this rank has {}", name,
                       of_name.size(), num_own[name]),
             "give this rank's own state, or hold the buffer in a part of the module");
    }
    values.push_back(of_name[for_each ? at : 0]);
  }
  for (std::size_t i = 0; i < own.size(); ++i) at::Tensor(own[i].second).copy_(values[i]);
  impl_->engine.rank().has_weights = true;
  impl_->callers.settle();
}

void Pipeline::save(const std::string& path, const SaveOptions& options) {
  const SaveOutcome outcome = impl_->waking_others("Pipeline::save", [&] {
    impl_->require_own("Pipeline::save with an optimizer", options.optimizers);
    impl_->callers.require_settled("Pipeline::save");
    require_call(impl_->world, "save");
    return save_pipeline(impl_->state(), path, options);
  });
  // All ranks know: they can go on.
  if (outcome.error) throw Error(*outcome.error);
}

LoadedState Pipeline::load(const std::string& path, const LoadOptions& options) {
  return impl_->waking_others("Pipeline::load", [&] {
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
  impl_->engine.rank().fill(fill);
  impl_->callers.settle();
}

RankState Pipeline::state() const { return impl_->engine.state(impl_->engine.rank().groups); }
RankState Pipeline::state(const Group& world) const {
  const RankModel& rank = impl_->engine.rank();
  return impl_->engine.state(rank.shards_state ? make_run_groups(world, rank.mesh) : rank.groups);
}

std::vector<std::string> Pipeline::load_state(const Checkpoint& checkpoint, const FillStage& rest) {
  std::vector<std::string> without_state = impl_->engine.load(checkpoint, rest);
  impl_->callers.settle();
  return without_state;
}

void Pipeline::scale_grads_by_divisor(double divisor) {
  require_no_step("Pipeline::scale_grads_by_divisor");
  require_callers_update(impl_->engine.plan(), "Pipeline::scale_grads_by_divisor");
  require_divisor("Pipeline::scale_grads_by_divisor",
                  GradientScale(GradientScale::kDivisor, divisor));
  impl_->grads.scale(1.0 / divisor);
}

double Pipeline::clip_grad_norm(double max_norm) {
  require_thread(impl_->thread, "Pipeline::clip_grad_norm");
  require_no_step("Pipeline::clip_grad_norm");
  require_callers_update(impl_->engine.plan(), "Pipeline::clip_grad_norm");
  if (!(max_norm >= 0)) {
    throw Error(ErrorKind::kUsage, {.what = "a largest norm of " + std::to_string(max_norm),
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

int Pipeline::rank() const { return impl_->transport.rank(); }
int Pipeline::num_ranks() const { return impl_->transport.size(); }
int Pipeline::replica() const { return impl_->engine.rank().groups.replica; }
int Pipeline::num_replicas() const { return impl_->engine.rank().groups.num_replicas; }
std::uint64_t Pipeline::seed() const { return impl_->engine.options().seed; }
const Plan& Pipeline::plan() const { return impl_->engine.plan(); }
std::vector<Stage*> Pipeline::stages() const {
  require_no_step("Pipeline::stages");
  impl_->give_out_whole();
  return impl_->engine.rank().stages.pointers();
}
std::vector<std::shared_ptr<torch::nn::Module>> Pipeline::modules() const {
  require_no_step("Pipeline::modules");
  impl_->give_out_whole();
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  for (const auto& stage : impl_->engine.rank().stages.stages()) {
    Chunk& chunk = stage->chunk();
    for (std::size_t i = 0; i < chunk.layers().size(); ++i)
      if (chunk.layers()[i].make) modules.push_back(chunk.module(i).shared_from_this());
  }
  return modules;
}
const Group& Pipeline::world() const { return impl_->world; }
bool Pipeline::has_first_stage() const {
  return impl_->engine.plan().program.stage_map.rank_of(0) == impl_->engine.rank().groups.place();
}
const StepTimes& Pipeline::times() const { return impl_->engine.times(); }

std::vector<RankStats> Pipeline::gather_stats(const StepTimes& times) const {
  const MemoryLedger* ledger = impl_->engine.options().ledger;
  Packer own;
  own.add(std::vector<double>{times.total, times.compute, times.wait_receive, times.wait_send,
                              times.reduction, times.optimizer, times.compute_cpu});
  own.add(ledger ? ledger->peak_bytes(impl_->world.rank()) : 0);
  std::vector<RankStats> stats;
  for (Unpacker& message : gather_messages(impl_->world, own, "what the step cost")) {
    RankStats& of_rank = stats.emplace_back();
    const auto seconds = message.take<std::vector<double>>();
    of_rank.times = {seconds.at(0), seconds.at(1), seconds.at(2), seconds.at(3),
                     seconds.at(4), seconds.at(5), seconds.at(6)};
    of_rank.peak_bytes = message.take<std::int64_t>();
    message.finish();
  }
  return stats;
}

std::vector<int> Pipeline::gather_unsplit_stages() const {
  std::vector<int> own;
  for (const auto& stage : impl_->engine.rank().stages.stages()) {
    if (!stage->splits_backward()) own.push_back(stage->index());
  }
  std::set<int> unsplit;
  for (Unpacker& message : gather_messages(impl_->world, Packer().add(own), "unsplit stages")) {
    for (const int stage : message.take<std::vector<int>>()) unsplit.insert(stage);
    message.finish();
  }
  return {unsplit.begin(), unsplit.end()};
}

std::string Pipeline::flight_record() const { return impl_->engine.flight_record(); }
int Pipeline::current_instruction() const { return impl_->engine.current_instruction(); }

bool Pipeline::has_last_stage() const {
  const int last = impl_->engine.plan().program.num_stages() - 1;
  return impl_->engine.plan().program.stage_map.rank_of(last) ==
         impl_->engine.rank().groups.place();
}

}  // namespace sluice
