#include "sluice/pipeline.h"

#include <torch/optim/optimizer.h>

#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/rank_errors.h"
#include "layer/autocast.h"
#include "layer/split_inputs.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"
#include "train/pipeline_impl.h"
#include "train/step_checks.h"

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

// Makes model inputs that no layer reads optional, because only the loss needs them.
Model without_labels(Model model) {
  std::set<std::string> read;
  for (const auto* layers : {&model.layers, &model.free_layers})
    for (const LayerSpec& layer : *layers) read.insert(layer.reads.begin(), layer.reads.end());
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
  require_same_parameters(share.stages);
  const BatchSplit split(inputs, model);
  split.require_no_gradient();
  const int planned = rank.plan().schedule.num_microbatches;
  const int possible = split.num_microbatches(planned);
  if (possible != planned) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("the batch falls into {}, but the schedule has {}",
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

void Pipeline::Impl::agree_on(StepBatch& batch, const StepOptions& options, const char* call,
                              const std::string& said) {
  const RunGroups& groups = share.groups;
  if (groups.num_replicas == 1) require_counted(batch);
  const bool is_first = compared_calls.insert(call).second;
  agree(groups, batch, options, said.c_str(), is_first ? Compared::kAll : Compared::kSome);
  if (groups.num_replicas > 1) require_counted(batch);
}

void Pipeline::Impl::warn_of_loss(double loss) {
  if (std::isfinite(loss) || transport.rank() != 0 || std::exchange(warned_of_loss, true)) return;
  log_warning(
      formatted("the loss of step {} is {}; Pipeline::train_step continues: look at "
                "StepResult::loss, and stop there",
                step, std::isnan(loss) ? "nan" : std::to_string(loss)));
}

Pipeline::Pipeline(const Model& model, const Plan& plan, Transport& transport, RunOptions options)
    : impl_(std::make_unique<Impl>(model, &plan, std::nullopt, transport, std::move(options))) {}
Pipeline::~Pipeline() = default;

Pipeline::Pipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<Pipeline::Impl> Pipeline::Impl::drafted(const Model& model, Plan draft,
                                                        Transport& transport,
                                                        const RunOptions& options) {
  return std::make_unique<Impl>(model, /*plan=*/nullptr, std::move(draft), transport, options);
}

StepResult Pipeline::train_step(const Inputs& inputs, const StepOptions& options) {
  return impl_->abort_on_error("Pipeline::train_step", [&] {
    PipelineRank& rank = impl_->rank;
    require_callers_update(rank.plan(), "Pipeline::train_step");
    require_something_trains(impl_->share);
    impl_->callers.require_settled("Pipeline::train_step");
    const AutocastScope autocast(rank.options().autocast);
    const StepBatch batch = impl_->training_batch(inputs, options, "Pipeline::train_step");
    impl_->grads.require_parameters_requested(impl_->transport.rank());
    StepResult result = rank.train(batch, options);
    // Sum ties before adding to `.grad`, which may hold gradients of earlier steps.
    rank.finish_ties();
    impl_->grads.add_step();
    for (const auto& stage : impl_->share.stages.stages()) stage->clear_gradients();
    impl_->warn_of_loss(result.loss);
    return result;
  });
}

StepResult Pipeline::eval_step(const Inputs& inputs, const StepOptions& options) {
  return impl_->abort_on_error("Pipeline::eval_step", [&] {
    PipelineRank& rank = impl_->rank;
    const AutocastScope autocast(rank.options().autocast);
    require_no_scale("Pipeline::eval_step", options.scale);
    impl_->callers.require_settled("Pipeline::eval_step");
    require_same_parameters(impl_->share.stages);
    const BatchSplit split(inputs, impl_->model);
    const int num_microbatches = split.num_microbatches(rank.plan().schedule.num_microbatches);
    StepBatch batch = make_batch(split, impl_->model, num_microbatches, impl_->step, options);
    impl_->agree_on(batch, options, "eval_step", "eval_step");
    return rank.evaluate(batch, options);
  });
}

std::vector<Values> Pipeline::predict(const Inputs& inputs, OutputRanks ranks) {
  return impl_->abort_on_error("Pipeline::predict", [&] {
    PipelineRank& rank = impl_->rank;
    const AutocastScope autocast(rank.options().autocast);
    require_same_parameters(impl_->share.stages);
    impl_->callers.require_settled("Pipeline::predict");
    const Model unlabelled = without_labels(impl_->model);
    const BatchSplit split(inputs, unlabelled);
    const int num_microbatches = split.num_microbatches(rank.plan().schedule.num_microbatches);
    StepBatch batch;
    batch.step = impl_->step;
    for (Values& values : split.microbatches(num_microbatches)) {
      batch.microbatches.push_back(std::move(values));
      batch.counts.push_back(0);
    }
    const StepOptions options{.outputs = ranks};
    const bool is_first = impl_->compared_calls.insert("predict").second;
    agree(impl_->share.groups, batch, options, "predict",
          is_first ? Compared::kAll : Compared::kSome);
    return rank.predict(batch, ranks);
  });
}

void Pipeline::update(torch::optim::Optimizer& optimizer) {
  impl_->abort_on_error("Pipeline::update", [&] {
    PipelineRank& rank = impl_->rank;
    require_callers_update(rank.plan(), "Pipeline::update");
    require_no_closure(optimizer, "Pipeline::update");
    impl_->callers.require_fits(optimizer, "Pipeline::update");
    impl_->callers.require_settled("Pipeline::update");
    impl_->grads.give_out();
    require_call(impl_->world, "step");
    rank.update([&] { optimizer.step(); }, impl_->step);
    impl_->callers.settle();
  });
}

int Pipeline::rank() const { return impl_->transport.rank(); }
int Pipeline::num_ranks() const { return impl_->transport.size(); }
int Pipeline::replica() const { return impl_->share.groups.replica; }
int Pipeline::num_replicas() const { return impl_->share.groups.num_replicas; }
std::uint64_t Pipeline::seed() const { return impl_->rank.options().seed; }
const Plan& Pipeline::plan() const { return impl_->rank.plan(); }
std::vector<Stage*> Pipeline::stages() const {
  require_no_step("Pipeline::stages");
  impl_->hand_out_whole_parameters();
  return impl_->share.stages.pointers();
}
std::vector<std::shared_ptr<torch::nn::Module>> Pipeline::modules() const {
  require_no_step("Pipeline::modules");
  impl_->hand_out_whole_parameters();
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  for (const auto& stage : impl_->share.stages.stages()) {
    Chunk& chunk = stage->chunk();
    for (std::size_t i = 0; i < chunk.layers().size(); ++i)
      if (chunk.layers()[i].make) modules.push_back(chunk.module(i).shared_from_this());
  }
  return modules;
}
const Group& Pipeline::world() const { return impl_->world; }
bool Pipeline::has_first_stage() const { return impl_->has_stage(0); }
bool Pipeline::has_last_stage() const { return impl_->has_stage(program().num_stages() - 1); }
const StepTimes& Pipeline::times() const { return impl_->rank.times(); }

}  // namespace sluice
