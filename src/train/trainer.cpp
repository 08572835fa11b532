#include "sluice/trainer.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "checkpoint/load_state.h"
#include "comm/gather_messages.h"
#include "plan/data_parallel.h"
#include "run/autocast.h"
#include "run/fault_injection.h"
#include "sluice/error.h"
#include "sluice/lora.h"
#include "sluice/parts/adapter_directory.h"
#include "sluice/parts/build_stages.h"
#include "sluice/parts/log.h"
#include "sluice/parts/memory_ledger.h"
#include "train/begin_alike.h"
#include "train/evaluator.h"
#include "train/sharded_parameters.h"
#include "train/sharded_state.h"
#include "train/stage_weights.h"
#include "train/step_checks.h"

namespace sluice {
namespace {

// Knows the instruction that runs, or failed.
struct CurrentInstruction final : ExecutorObserver {
  void begin(int at, const Action& /*action*/) override { index = at; }
  void end_step() override { index = -1; }
  int index = -1;
};

// Knows which step's update the weights hold. An update begins when the loss and the norm that it
// waits for have arrived, and ends with the row: until then the weights are those of the step
// before.
struct UpdateWatch final : ExecutorObserver {
  explicit UpdateWatch(const std::unique_ptr<TrainOps>& of) : ops(of) {}
  void begin_step(std::int64_t step) override { running = step; }
  void arrived(const Action& action, const std::vector<at::Tensor>& /*tensors*/) override {
    if (action.kind == ActionKind::kUpdate || action.kind == ActionKind::kOptimizerStep)
      updating = ops->report().finite;
  }
  void end_step() override {
    updating = false;
    if (ops->report().finite) updated = running;
  }
  const std::unique_ptr<TrainOps>& ops;
  std::int64_t running = 0, updated = 0;
  bool updating = false;  // an update began and has not ended
};

}  // namespace

struct Trainer::Impl {
  Transport& transport;
  const TrainerOptions options;
  const std::unique_ptr<FaultInjector> faults;  // of SLUICE_FAULT
  const RunGroups groups;
  RankStages stages;
  std::unique_ptr<TrainOps> ops;
  CurrentInstruction current;
  UpdateWatch updates{ops};
  std::optional<LedgerObserver> arrivals;
  std::unique_ptr<Executor> executor;
  const Program& program;
  const ModelEnd end;
  const RunOptions evaluation_options;
  std::optional<Evaluator> evaluation;
  bool evaluated_last = false;
  const bool draws_by_module;

  Impl(const Model& model, const Partition& partition, const Program& the_program,
       Transport& the_transport, TrainerOptions the_options)
      : transport(the_transport),
        options(std::move(the_options)),
        faults(injected_faults(transport.rank(), transport.size())),
        groups(make_groups(the_program, transport, options.data_parallel)),
        stages(build_stages(model, partition, groups.place())),
        program(the_program),
        end(model),
        evaluation_options{.seed = options.seed},
        draws_by_module(model.initialization.module) {
    log_stages(model, partition);
    ops = std::make_unique<TrainOps>(program, stages.pointers(), groups, options.optimizer,
                                     options.data_parallel, options.requested);
    executor = std::make_unique<Executor>(program, transport.rank(), stages.pointers(), transport,
                                          *ops, end.loss, executor_options());
    ops->watch(*executor, end.auxiliary);
  }

  static RunGroups make_groups(const Program& program, Transport& transport,
                               const DataParallel& data_parallel) {
    require_planned_replicas(program.mesh, data_parallel, "TrainerOptions::data_parallel");
    return make_run_groups(transport.world(), program.mesh);
  }

  Evaluator& evaluator() {
    if (!evaluation) {
      std::vector<ExecutorObserver*> observers;
      if (arrivals) observers.push_back(&*arrivals);
      observers.insert(observers.end(), options.evaluation_observers.begin(),
                       options.evaluation_observers.end());
      if (faults) observers.push_back(faults.get());
      evaluation.emplace(program, stages, transport, groups, end, evaluation_options, observers,
                         ops->sharded_parameters());
    }
    return *evaluation;
  }

  void begin_filling(int stage) {
    if (ShardedParameters* sharded = ops->sharded_parameters()) sharded->begin_filling(stage);
  }
  void end_filling(int stage) {
    if (ShardedParameters* sharded = ops->sharded_parameters()) sharded->end_filling(stage);
  }

  // Those that a checkpoint has of this rank, and of which each replica has its own blocks.
  std::vector<ShardedTensor> sharded_parameters() const {
    std::vector<ShardedTensor> tensors;
    const ShardedParameters* sharded = ops->sharded_parameters();
    if (!sharded) return tensors;
    for (Stage* stage : stages.pointers()) {
      for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
        const ParameterInfo& info = stage->parameters()[i];
        if (!info.tied_to.empty() || !sharded->is_sharded(stage->index(), i)) continue;
        if (!saves(info.name)) continue;
        ShardedTensor& tensor = tensors.emplace_back();
        tensor.name = info.name;
        tensor.shape = info.global_shape;
        tensor.options = at::TensorOptions(info.tensor.device()).dtype(info.tensor.scalar_type());
        for (int replica = 0; replica < groups.num_replicas; ++replica)
          tensor.of_replica.push_back(sharded->range(stage->index(), i, replica));
        if (tensor.of_replica[static_cast<std::size_t>(groups.replica)])
          tensor.own = sharded->own(stage->index(), i);
      }
    }
    return tensors;
  }

  bool saves(const std::string& parameter) const {
    return !options.saves_adapter_alone || is_adapter_parameter(parameter);
  }

  // The rest is kept elsewhere.
  void keep_adapter(RankState& state) const {
    if (!options.saves_adapter_alone) return;
    std::erase_if(state.parameters,
                  [](const auto& own) { return !is_adapter_parameter(own.first); });
    state.buffers.clear();
    state.ties.clear();
  }

  // Of what is not sharded, replica 0's.
  void keep_whole(RankState& state, const std::vector<ShardedTensor>& sharded) const {
    if (groups.replica != 0) {
      state = {};
      return;
    }
    std::set<std::string_view> names;
    for (const ShardedTensor& tensor : sharded) names.insert(tensor.name);
    std::erase_if(state.parameters, [&](const auto& own) { return names.contains(own.first); });
  }

  RankState state(const RunGroups& connected) const {
    RankState state;
    const std::vector<ShardedTensor> sharded = sharded_parameters();
    if (groups.replica == 0 || !sharded.empty()) state = state_of(stages.pointers());
    keep_adapter(state);
    if (!sharded.empty()) {
      keep_whole(state, sharded);
      for (auto& parameter : gather_whole(sharded, connected))
        state.parameters.push_back(std::move(parameter));
    }
    if (ops->shards_state()) {
      state.optimizer = ops->gather_state(connected);
    } else if (groups.replica == 0) {
      state.optimizer = optimizer_state_of(state, ops->optimizer().state());
    }
    return state;
  }

  void log_stages(const Model& model, const Partition& partition) const {
    if (!logs(LogLevel::kDebug)) return;
    for (const auto& stage : stages.stages())
      log_stage(model, partition.stages[stage->index()], *stage);
  }

  void log_stage(const Model& model, const StageContent& content, Stage& stage) const {
    std::int64_t parameters = 0, bytes = 0;
    for (const ParameterInfo& info : stage.parameters()) {
      parameters += info.tensor.numel();
      bytes += static_cast<std::int64_t>(info.tensor.nbytes());
    }
    const auto name_of = [&](int layer) { return model.layers[layer].name; };
    const int first = content.layers.front(), last = content.layers.back();
    log_debug("rank " + std::to_string(transport.rank()) + ": made stage " +
              std::to_string(content.stage) + ", " + name_of(first) +
              (first == last ? "" : " to " + name_of(last)) + ", " + with_commas(parameters) +
              " parameters, " + human_bytes(bytes));
  }

  ExecutorOptions executor_options() {
    ExecutorOptions executor_options;
    executor_options.seed = options.seed;
    executor_options.scale = options.scale;
    executor_options.auxiliary = end.auxiliary;
    executor_options.num_shards =
        detail::sums_in_shards(options.data_parallel) ? options.data_parallel.shards : 0;
    executor_options.input_metas = [this](int stage, const Values& batch) {
      return stages.input_metas(stage, batch);
    };
    executor_options.observers = {&current, &updates};
    if (options.ledger)
      executor_options.observers.push_back(&arrivals.emplace(*options.ledger, transport.rank()));
    for (ExecutorObserver* observer : options.observers)
      executor_options.observers.push_back(observer);
    if (faults) executor_options.observers.push_back(faults.get());
    return executor_options;
  }
};

Trainer::Trainer(const Model& model, const Partition& partition, const Program& program,
                 Transport& transport, TrainerOptions options)
    : impl_(std::make_unique<Impl>(model, partition, program, transport, std::move(options))) {}
Trainer::~Trainer() = default;

void Trainer::load_weights(const HfDirectory& directory, const ModelSpec& spec,
                           const AdapterDirectory* adapter) {
  for (const auto& stage : impl_->stages.stages()) {
    impl_->begin_filling(stage->index());
    sluice::load_weights(*stage, directory, spec);
    if (adapter)
      load_adapter(*adapter, stage->parameters());
    else
      draw_adapter(stage->parameters(), impl_->options.seed);
    impl_->end_filling(stage->index());
  }
}

void Trainer::draw_weights() {
  for (const auto& stage : impl_->stages.stages()) impl_->begin_filling(stage->index());
  impl_->stages.draw_weights(impl_->options.seed);
  begin_alike(impl_->stages.pointers(), impl_->groups, impl_->draws_by_module);
  for (const auto& stage : impl_->stages.stages()) impl_->end_filling(stage->index());
}

std::vector<std::string> Trainer::load(const Checkpoint& checkpoint, const HfDirectory* base,
                                       const ModelSpec* spec) {
  const Group world = impl_->transport.world();
  load_stages(
      checkpoint, impl_->stages.pointers(), world,
      [&](Stage& stage) {
        impl_->begin_filling(stage.index());
        if (base && spec) sluice::load_weights(stage, *base, *spec);
      },
      [&](Stage& stage) { impl_->end_filling(stage.index()); });
  const WireWriter own = WireWriter().add(impl_->ops->load_state(checkpoint));
  std::set<std::string> without_state;
  for (WireReader& of_rank : gather_messages(world, own, "optimizer state")) {
    for (std::string& name : of_rank.take<std::vector<std::string>>())
      without_state.insert(std::move(name));
    of_rank.finish();
  }
  return {without_state.begin(), without_state.end()};
}

const StepReport& Trainer::step(const StepBatch& batch, double learning_rate) {
  require_counted(batch, "no label of the step's batch is counted",
                  "give every step at least one label that counts");
  if (impl_->options.ledger) impl_->options.ledger->reset_peak(impl_->transport.rank());
  impl_->ops->set_learning_rate(learning_rate);
  const AutocastScope autocast(impl_->options.autocast);
  impl_->evaluated_last = false;
  impl_->executor->run_step(batch);
  const StepReport& report = impl_->ops->report();
  if (!report.finite)
    throw_not_finite(*impl_->executor, impl_->transport.world(), impl_->program, batch, report);
  return report;
}

std::vector<MicrobatchLoss> Trainer::evaluate(const StepBatch& batch) {
  const AutocastScope autocast(impl_->options.autocast);
  Evaluator& evaluator = impl_->evaluator();
  impl_->evaluated_last = true;
  evaluator.run(batch);
  return evaluator.losses();
}

const StepTimes& Trainer::times() const { return impl_->executor->times(); }

std::vector<RankStats> Trainer::gather_stats(const StepTimes& times) {
  const Group world = impl_->transport.world();
  const MemoryLedger* ledger = impl_->options.ledger;
  WireWriter own;
  own.add(std::vector<double>{times.total, times.compute, times.wait_receive, times.wait_send,
                              times.reduction, times.optimizer, times.compute_cpu});
  own.add(ledger ? ledger->peak_bytes(world.rank()) : 0);
  std::vector<RankStats> stats;
  for (WireReader& message : gather_messages(world, own, "what the step cost")) {
    RankStats& of_rank = stats.emplace_back();
    const auto seconds = message.take<std::vector<double>>();
    of_rank.times = {seconds.at(0), seconds.at(1), seconds.at(2), seconds.at(3),
                     seconds.at(4), seconds.at(5), seconds.at(6)};
    of_rank.peak_bytes = message.take<std::int64_t>();
    message.finish();
  }
  return stats;
}

std::vector<int> Trainer::gather_unsplit_stages() {
  std::vector<int> own;
  for (const auto& stage : impl_->stages.stages()) {
    if (!stage->splits_backward()) own.push_back(stage->index());
  }
  std::set<int> unsplit;
  for (WireReader& message :
       gather_messages(impl_->transport.world(), WireWriter().add(own), "unsplit stages")) {
    for (const int stage : message.take<std::vector<int>>()) unsplit.insert(stage);
    message.finish();
  }
  return {unsplit.begin(), unsplit.end()};
}

std::vector<ParameterInfo> Trainer::parameters() const {
  std::vector<ParameterInfo> all;
  for (const auto& stage : impl_->stages.stages()) {
    const ShardedParameters* sharded = impl_->ops->sharded_parameters();
    for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
      ParameterInfo& info = all.emplace_back(stage->parameters()[i]);
      if (sharded && sharded->is_sharded(stage->index(), i))
        info.tensor = sharded->own(stage->index(), i);
    }
  }
  return all;
}

RankState Trainer::state() const { return impl_->state(impl_->groups); }
RankState Trainer::state(const Group& world) const {
  const bool gathers = impl_->ops->shards_state();
  return impl_->state(gathers ? make_run_groups(world, impl_->program.mesh) : impl_->groups);
}

const Optimizer& Trainer::optimizer() const { return impl_->ops->optimizer(); }
std::optional<std::int64_t> Trainer::weights_step() const {
  if (impl_->updates.updating) return std::nullopt;
  return impl_->updates.updated;
}
std::string Trainer::flight_record() const {
  return impl_->evaluated_last ? impl_->evaluation->flight_record()
                               : impl_->executor->flight_record();
}
int Trainer::current_instruction() const { return impl_->current.index; }

}  // namespace sluice
