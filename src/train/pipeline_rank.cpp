#include "train/pipeline_rank.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/load_state.h"
#include "checkpoint/rank_state.h"
#include "comm/gather_messages.h"
#include "layer/autocast.h"
#include "layer/auxiliary_values.h"
#include "layer/unfilled.h"
#include "plan/choose/plan_one.h"
#include "plan/partition/stage_backwards.h"
#include "plan/step_program.h"
#include "sluice/error.h"
#include "sluice/model.h"
#include "sluice/parts/saver.h"
#include "train/gather_slices.h"
#include "train/not_finite.h"
#include "train/step_checks.h"

namespace sluice {
namespace {

std::vector<std::string> roots_of(const Model& model) {
  std::vector<std::string> roots = model.outputs;
  for (const LayerSpec& layer : model.layers) {
    for (const std::string& name : layer.writes) {
      if (is_auxiliary(model, name)) roots.push_back(name);
    }
  }
  return roots;
}

const char* text_of(StageBackward backward) {
  switch (backward) {
    case StageBackward::kFull:
      return "gradients of weights and of its input";
    case StageBackward::kInput:
      return "gradients of its input alone";
    case StageBackward::kWeights:
      return "gradients of weights alone";
    case StageBackward::kNone:
      return "no backward";
  }
  return "";
}

[[noreturn]] void refuse_plan(const Model& model, const StageContent& stage, StageBackward needed,
                              const std::vector<bool>& layer_trains) {
  const bool has_more = has_weight_gradients(stage.backward) && !has_weight_gradients(needed);
  const auto layer = std::find_if(stage.layers.begin(), stage.layers.end(), [&](int of_stage) {
    return layer_trains[static_cast<std::size_t>(of_stage)] != has_more;
  });
  const int named = layer == stage.layers.end() ? stage.layers.front() : *layer;
  const std::string& name = model.layers[static_cast<std::size_t>(named)].name;
  throw Error(
      ErrorKind::kUsage,
      {.what = formatted("layer '{}' {}, so stage {} needs {}, but the plan has {}", name,
                         layer_trains[static_cast<std::size_t>(named)] ? "trains" : "is frozen",
                         stage.stage, text_of(needed), text_of(stage.backward)),
       .where = "Plan::partition",
       .remedy = "plan with describe(layers, batch) or PipelineOptions::frozen_layers, or "
                 "let sluice::run plan"});
}

void log_stage(const Model& model, const StageContent& content, Stage& stage, int rank) {
  std::int64_t parameters = 0, bytes = 0;
  for (const ParameterInfo& info : stage.parameters()) {
    parameters += info.tensor.numel();
    bytes += static_cast<std::int64_t>(info.tensor.nbytes());
  }
  const auto name_of = [&](int layer) {
    return model.layers[static_cast<std::size_t>(layer)].name;
  };
  const int first = content.layers.front(), last = content.layers.back();
  log_debug(formatted("rank {}: made stage {}, {}{}, {} parameters, {}", rank, content.stage,
                      name_of(first), first == last ? "" : " to " + name_of(last),
                      with_commas(parameters), human_bytes(bytes)));
}

void warn_of_fresh_state(const std::set<std::string>& parameters) {
  constexpr std::size_t kMostNames = 8;
  if (parameters.empty()) return;
  std::vector<std::string> names(parameters.begin(), parameters.end());
  const bool has_more = names.size() > kMostNames;
  if (has_more) names.resize(kMostNames);
  log_warning("the checkpoint has no optimizer state for " +
              counted(static_cast<std::int64_t>(parameters.size()), "parameter") +
              ", which starts afresh: '" + join(names, "', '") + "'" + (has_more ? ", .." : ""));
}

}  // namespace

PipelineRank::PipelineRank(const Model& model, const Plan* plan, std::optional<Plan> draft,
                           Transport& transport, RunOptions options)
    : finished_(std::move(draft)),
      plan_(finished_ ? *finished_ : *plan),
      transport_(require_fits(plan_, transport)),
      options_(std::move(options)),
      faults_(injected_faults(transport.rank(), transport.size())),
      end_(model),
      other_evaluation_(model.evaluation) {
  require_runnable(plan_, model, options_);
  share_ =
      std::make_unique<RankModel>(model, plan_, transport_.world(), transport_.device(), options_);
  if (logs(LogLevel::kDebug)) {
    for (const auto& stage : share_->stages.stages())
      log_stage(model, plan_.partition.stages[static_cast<std::size_t>(stage->index())], *stage,
                transport_.rank());
  }
  finish_or_check_plan(model);
  if (options_.ledger) arrivals_.emplace(*options_.ledger, transport_.rank());
  if (arrivals_) observers_.push_back(&*arrivals_);
  const auto add = [&](const auto& more, std::vector<ExecutorObserver*>& to) {
    if (!more) return;
    for (ExecutorObserver* observer : more(transport_.rank())) to.push_back(observer);
  };
  add(options_.observers, observers_);
  if (faults_) observers_.push_back(faults_.get());
  training_observers_ = {&current_};
  add(options_.training_observers, training_observers_);
  training_observers_.insert(training_observers_.end(), observers_.begin(), observers_.end());
  share_->initialize(model, options_);
}

void PipelineRank::finish_or_check_plan(const Model& model) {
  require_planned_training(plan_, share_->stages);
  const std::vector<bool> layer_trains = layers_that_train(*share_, model);
  const std::vector<StageBackward> backwards =
      stage_backwards(describe(model.layers), plan_.partition, layer_trains, roots_of(model));
  for (std::size_t i = 0; i < layer_trains.size(); ++i) {
    if (!layer_trains[i] || !plan_.model.layers[i].frozen) continue;
    throw Error(ErrorKind::kUsage,
                {.what = "layer '" + model.layers[i].name + "' trains, but the plan freezes it",
                 .where = "PipelineOptions::frozen_layers",
                 .remedy = "take requires_grad from its parameters in LayerSpec::make, or do not "
                           "name it"});
  }
  if (finished_) {
    for (StageContent& stage : finished_->partition.stages)
      stage.backward = backwards[static_cast<std::size_t>(stage.stage)];
    finished_ = detail::finish_plan(std::move(*finished_));
  } else {
    for (const StageContent& stage : plan_.partition.stages) {
      const StageBackward needed = backwards[static_cast<std::size_t>(stage.stage)];
      if (stage.backward != needed) refuse_plan(model, stage, needed, layer_trains);
    }
  }
}

StepRunner& PipelineRank::training_runner(bool gathers_outputs) {
  const bool gathers = gathers_outputs || plan_.options.gathers_outputs;
  const auto found = training_.find(gathers);
  if (found != training_.end()) return found->second;
  Program program = gathers == plan_.options.gathers_outputs
                        ? plan_.program
                        : detail::proven_step_program(plan_, {.gathers_outputs = gathers});
  return training_
      .emplace(std::piecewise_construct, std::tuple(gathers),
               std::forward_as_tuple(std::move(program), *share_, transport_, end_, options_,
                                     training_observers_, update_ ? *update_ : no_update_))
      .first->second;
}

void PipelineRank::require_weights(const char* call) const {
  if (share_->has_weights) {
    for (const auto& [stage, names] : share_->unfilled)
      require_none_unfilled(names, formatted("stage {}, before {}", stage, call),
                            share_->unfilled_remedy);
    return;
  }
  std::string first;
  for (Stage* stage : share_->stages.pointers())
    if (first.empty() && !stage->parameters().empty())
      first = formatted(", beginning with '{}'", stage->parameters().front().name);
  throw Error(
      ErrorKind::kUsage,
      {.what = "the weights are not set yet (InitialWeights::kNone)" + first,
       .where = call,
       .remedy = "call load_weights(), load(), load_state() or load_state_dict() before the "
                 "first step"});
}

StepResult PipelineRank::train(const StepBatch& batch, const StepOptions& options) {
  require_weights("the first training step");
  if (options_.ledger) options_.ledger->reset_peak(transport_.rank());
  const AutocastScope autocast(options_.autocast);
  StepRunner& runner = training_runner(options.outputs == OutputRanks::kAll);
  last_trained_ = &runner;
  ran_last_ = Ran::kTraining;
  StepResult result = runner.run(batch, options);
  if (!result.finite && (update_ || options_.requires_finite)) {
    throw_not_finite(runner.executor(), share_->groups.world, runner.program(), batch,
                     result.parameter_norms);
  }
  return result;
}

void PipelineRank::finish_ties() { last_trained_->finish_ties(); }

void PipelineRank::update(const std::function<void()>& step, std::int64_t number) {
  if (!callers_runner_) {
    callers_update_.emplace(*share_);
    callers_runner_.emplace(detail::proven_step_program(plan_, {.update_only = true}), *share_,
                            transport_, end_, options_, std::vector<ExecutorObserver*>(),
                            *callers_update_);
  }
  ran_last_ = Ran::kUpdate;
  StepBatch nothing;
  nothing.step = number;
  nothing.total_count = 0;
  callers_update_->begin(step);
  callers_runner_->run(nothing, {});
}

Evaluator& PipelineRank::evaluator() {
  if (!evaluation_) {
    auto other = other_evaluation_ ? std::make_unique<EvaluationModel>(
                                         *other_evaluation_, plan_, *share_, transport_, options_)
                                   : nullptr;
    evaluation_.emplace(std::move(other), plan_, *share_, transport_, end_, options_, observers_);
  }
  return *evaluation_;
}

StepResult PipelineRank::evaluate(const StepBatch& batch, const StepOptions& options) {
  require_weights("the evaluation");
  const AutocastScope autocast(options_.autocast);
  Evaluator& evaluation = evaluator();
  ran_last_ = Ran::kEvaluation;
  return evaluation.run(batch, options);
}

std::vector<Values> PipelineRank::predict(const StepBatch& batch, OutputRanks ranks) {
  require_weights("Pipeline::predict");
  const AutocastScope autocast(options_.autocast);
  Evaluator& evaluation = evaluator();
  ran_last_ = Ran::kEvaluation;
  return evaluation.predict(batch, ranks);
}

bool PipelineRank::holds_first_copy() const {
  return share_->groups.replica < share_->groups.num_experts_ranks;
}

bool PipelineRank::saves(const std::string& parameter) const {
  return !options_.saves || options_.saves(parameter);
}

std::vector<ShardedTensor> PipelineRank::sharded_parameters(bool all) const {
  std::vector<ShardedTensor> tensors;
  const ShardedParameters* sharded = share_->sharded.get();
  if (!sharded) return tensors;
  const RunGroups& groups = share_->groups;
  for (Stage* stage : share_->stages.pointers()) {
    for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
      const ParameterInfo& info = stage->parameters()[i];
      if (!info.tied_to.empty() || !sharded->is_sharded(stage->index(), i)) continue;
      if (!all && !saves(info.name)) continue;
      ShardedTensor& tensor = tensors.emplace_back();
      tensor.name = info.name;
      tensor.of_expert = info.of_expert;
      tensor.shape = info.tensor.sizes().vec();
      tensor.elements = c10::multiply_integers(info.global_shape);
      tensor.options = at::TensorOptions(info.tensor.device()).dtype(info.tensor.scalar_type());
      for (int replica = 0; replica < groups.num_replicas; ++replica)
        tensor.of_replica.push_back(sharded->range(stage->index(), i, replica));
      if (tensor.of_replica[static_cast<std::size_t>(groups.replica)])
        tensor.own = sharded->own(stage->index(), i);
    }
  }
  return tensors;
}

// Takes unsharded state from replica 0, because forwards may change buffers differently on other
// replicas. Experts that replica 0 lacks come from the first replica that holds them.
RankState PipelineRank::held_weights(const RunGroups& connected, bool all) const {
  const std::vector<ShardedTensor> sharded = sharded_parameters(all);
  RankState state;
  if (holds_first_copy()) state = state_of(share_->stages.pointers());
  if (share_->groups.replica != 0) {
    state.buffers.clear();
    state.ties.clear();
    const auto parameters = parameters_by_name(share_->stages.pointers());
    std::erase_if(state.parameters,
                  [&](const auto& own) { return !parameters.at(own.first)->of_expert; });
  }
  if (options_.saves && !all) {
    std::erase_if(state.parameters, [&](const auto& own) { return !saves(own.first); });
    state.buffers.clear();
    state.ties.clear();
  }
  if (!sharded.empty()) {
    std::set<std::string_view> names;
    for (const ShardedTensor& tensor : sharded) names.insert(tensor.name);
    std::erase_if(state.parameters, [&](const auto& own) { return names.contains(own.first); });
    for (auto& parameter : gather_whole(sharded, connected))
      state.parameters.push_back(std::move(parameter));
  }
  return state;
}

// Gathers tensor-parallel slices. Only the first tensor-parallel rank keeps undivided state.
RankState PipelineRank::gathered(RankState state, const RunGroups& connected) const {
  if (!connected.shares) return state;
  const auto parameters = parameters_by_name(share_->stages.pointers());
  state.parameters = gather_slices(std::move(state.parameters), parameters, connected);
  state.optimizer = gather_slices(std::move(state.optimizer), parameters, connected);
  if (connected.is_first_share()) return state;
  state.buffers.clear();
  state.ties.clear();
  return state;
}

RankState PipelineRank::weights(const RunGroups& connected, bool all) const {
  return gathered(held_weights(connected, all), connected);
}

RankState PipelineRank::state(const RunGroups& connected) const {
  RankState state = held_weights(connected, /*all=*/false);
  if (update_ && share_->shards_state) {
    state.optimizer = update_->gather_state(connected);
  } else if (update_ && holds_first_copy()) {
    state.optimizer = optimizer_state_of(state, update_->optimizer().state());
  }
  return gathered(std::move(state), connected);
}

RankState PipelineRank::state(
    const RunGroups& connected,
    const std::function<NamedTensors(const RankState& held)>& optimizer_of) const {
  RankState state = held_weights(connected, /*all=*/false);
  state.optimizer = optimizer_of(state);
  return gathered(std::move(state), connected);
}

std::vector<std::string> PipelineRank::load(const Checkpoint& checkpoint, const FillStage& rest) {
  const Group world = transport_.world();
  ShardedParameters* const sharded = share_->sharded.get();
  if (update_) update_->require_own_kind(checkpoint);
  load_stages(
      checkpoint, share_->stages.pointers(), world,
      [&](Stage& stage) {
        if (sharded) sharded->begin_filling(stage.index());
        if (rest) rest(stage);
      },
      [&](Stage& stage) {
        // Without `rest` the checkpoint has every parameter, so a NaN is a saved value, not an
        // unfilled one.
        std::vector<std::string>& unfilled = share_->unfilled[stage.index()];
        unfilled = rest ? unfilled_parameters(stage.chunk()) : std::vector<std::string>();
        if (sharded) sharded->end_filling(stage.index());
      });
  share_->has_weights = true;
  if (!update_) return {};
  const Packer own = Packer().add(update_->load_state(checkpoint));
  std::set<std::string> without_state;
  for (Unpacker& of_rank : gather_messages(world, own, "optimizer state")) {
    for (std::string& name : of_rank.take<std::vector<std::string>>())
      without_state.insert(std::move(name));
    of_rank.finish();
  }
  if (transport_.rank() == 0) warn_of_fresh_state(without_state);
  return {without_state.begin(), without_state.end()};
}

const StepTimes& PipelineRank::times() const {
  static const StepTimes none;
  return last_trained_ ? last_trained_->executor().times() : none;
}

std::string PipelineRank::flight_record() const {
  if (ran_last_ == Ran::kEvaluation) return evaluation_->flight_record();
  if (ran_last_ == Ran::kUpdate) return callers_runner_->executor().flight_record();
  return last_trained_ ? last_trained_->executor().flight_record() : "";
}

}  // namespace sluice
