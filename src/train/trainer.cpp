#include "sluice/trainer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <sstream>

#include "base/text.h"
#include "run/memory_ledger.h"
#include "sluice/error.h"
#include "sluice/log.h"
#include "train/stage_inputs.h"

namespace sluice {
namespace {

std::vector<int> first_layers(const Partition& partition) {
  std::vector<int> first;
  for (const StageContent& stage : partition.stages) first.push_back(stage.layers.front());
  return first;
}

// The values that enter every stage, and after the last entry those that leave the model.
std::vector<std::vector<std::string>> values_at_cuts(const TrainableModel& model,
                                                     const Partition& partition) {
  std::vector<int> cuts = first_layers(partition);
  cuts.erase(cuts.begin());
  std::vector<std::vector<std::string>> values(1);  // only batch inputs enter the first stage
  for (auto& crossing :
       crossing_values(model.layers, cuts, model.batch_inputs, model.final_outputs)) {
    values.push_back(std::move(crossing));
  }
  values.push_back(model.final_outputs);
  return values;
}

Chunk make_chunk(const TrainableModel& model, const StageContent& stage,
                 std::vector<std::string> inputs, std::vector<std::string> outputs) {
  std::vector<LayerSpec> layers;
  for (int layer : stage.layers) layers.push_back(model.layers.at(static_cast<std::size_t>(layer)));
  return {std::move(layers), stage.layers.front(), std::move(inputs), std::move(outputs)};
}

// The mean over no token is no loss.
void require_counted(const StepBatch& batch) {
  if (std::any_of(batch.counts.begin(), batch.counts.end(), [](auto count) { return count > 0; }))
    return;
  throw Error(ErrorKind::kInput, "no label of the step's batch is counted",
              "step " + std::to_string(batch.step),
              "give every step at least one label that counts");
}

}  // namespace

struct Trainer::Impl {
  Transport& transport;
  const TrainerOptions options;
  std::vector<std::unique_ptr<Stage>> stages;
  std::unique_ptr<StageInputs> stage_inputs;
  std::unique_ptr<TrainOps> ops;
  std::unique_ptr<Executor> executor;
  const Program& program;
  int current_instruction = -1;
  std::int64_t step = 0;          // the one that runs
  std::int64_t updated_step = 0;  // the last with an update
  bool updating = false;          // since an update began, until it ended

  Impl(const TrainableModel& model, const Partition& partition, const Program& the_program,
       Transport& the_transport, TrainerOptions the_options)
      : transport(the_transport), options(std::move(the_options)), program(the_program) {
    const std::vector<std::vector<std::string>> values = values_at_cuts(model, partition);
    make_stages(model, partition, values);
    stage_inputs = std::make_unique<StageInputs>(
        model.layers, first_layers(partition),
        std::vector<std::vector<std::string>>(values.begin(), values.end() - 1));
    ops = std::make_unique<TrainOps>(program, stage_pointers(), transport, options.optimizer,
                                     options.stop_requested);
    executor = std::make_unique<Executor>(program, transport.rank(), stage_pointers(), transport,
                                          *ops, model.loss, executor_options());
    ops->watch(*executor);
  }

  void make_stages(const TrainableModel& model, const Partition& partition,
                   const std::vector<std::vector<std::string>>& values) {
    for (const StageContent& content : partition.stages) {
      if (content.rank != transport.rank()) continue;
      const auto s = static_cast<std::size_t>(content.stage);
      Chunk chunk = make_chunk(model, content, values[s], values[s + 1]);
      chunk.train(true);
      stages.push_back(std::make_unique<Stage>(content.stage, std::move(chunk)));
      log_stage(model, content, *stages.back());
    }
    std::vector<Chunk*> chunks;
    for (const auto& stage : stages) chunks.push_back(&stage->chunk());
    share_tied_storage(chunks);
  }

  void log_stage(const TrainableModel& model, const StageContent& content, Stage& stage) const {
    if (!logs(LogLevel::kDebug)) return;
    std::int64_t parameters = 0, bytes = 0;
    for (const ParameterInfo& info : stage.parameters()) {
      parameters += info.tensor.numel();
      bytes += static_cast<std::int64_t>(info.tensor.nbytes());
    }
    const auto name_of = [&](int layer) {
      return model.layers[static_cast<std::size_t>(layer)].name;
    };
    const int first = content.layers.front(), last = content.layers.back();
    log_debug("rank " + std::to_string(transport.rank()) + ": made stage " +
              std::to_string(content.stage) + ", " + name_of(first) +
              (first == last ? "" : " to " + name_of(last)) + ", " + with_commas(parameters) +
              " parameters, " + human_bytes(bytes));
  }

  std::vector<int> everybody() const {
    std::vector<int> ranks(static_cast<std::size_t>(transport.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  std::vector<Stage*> stage_pointers() const {
    std::vector<Stage*> pointers;
    for (const auto& stage : stages) pointers.push_back(stage.get());
    return pointers;
  }

  ExecutorOptions executor_options() {
    ExecutorOptions executor_options;
    executor_options.seed = options.seed;
    executor_options.scale = options.scale;
    executor_options.divisor = options.divisor;
    executor_options.ledger = options.ledger;
    executor_options.input_metas = [this](int stage, const Values& batch) {
      return stage_inputs->metas(stage, batch);
    };
    executor_options.hooks = options.hooks;
    executor_options.hooks.before = [this](int index, const Action& action) {
      current_instruction = index;
      if (options.hooks.before) options.hooks.before(index, action);
      if (action.kind == ActionKind::kOptimizerStep) updating = true;
    };
    executor_options.hooks.after = [this](int index, const Action& action) {
      if (action.kind == ActionKind::kOptimizerStep) {
        updating = false;
        if (ops->report().finite) updated_step = step;
      }
      if (options.hooks.after) options.hooks.after(index, action);
    };
    return executor_options;
  }
};

TrainerOptions trainer_options(const RunConfig& config) {
  static const std::vector<std::pair<std::string, GradientScale>> scales = {
      {"tokens", GradientScale::kTokens},
      {"microbatches", GradientScale::kMicrobatches},
      {"none", GradientScale::kNone},
      {"divisor", GradientScale::kDivisor}};
  TrainerOptions options;
  options.optimizer = config.optimizer;
  options.seed = static_cast<std::uint64_t>(config.training.seed);
  for (const auto& [name, scale] : scales) {
    if (name == config.parallelism.scale_grads) options.scale = scale;
  }
  options.divisor = config.parallelism.scale_grads_divisor;
  return options;
}

Trainer::Trainer(const TrainableModel& model, const Partition& partition, const Program& program,
                 Transport& transport, TrainerOptions options)
    : impl_(std::make_unique<Impl>(model, partition, program, transport, std::move(options))) {}
Trainer::~Trainer() = default;

void Trainer::load_weights(const HfDirectory& directory, const ModelSpec& spec) {
  for (const auto& stage : impl_->stages) load_parameters(directory, stage->parameters(), spec);
}

void Trainer::draw_weights() {
  for (const auto& stage : impl_->stages)
    initialize_parameters(stage->chunk(), impl_->options.seed);
}

const StepReport& Trainer::step(const StepBatch& batch, double learning_rate) {
  require_counted(batch);
  if (impl_->options.ledger) impl_->options.ledger->reset_peak(impl_->transport.rank());
  impl_->ops->set_learning_rate(learning_rate);
  impl_->step = batch.step;
  impl_->executor->run_step(batch);
  impl_->current_instruction = -1;
  const StepReport& report = impl_->ops->report();
  if (!report.finite)
    throw_not_finite(*impl_->executor, impl_->transport, impl_->program, batch, report);
  // A rank that failed before the others have updated would leave weights of two steps.
  impl_->transport.barrier();
  return report;
}

std::vector<RankStats> Trainer::gather_stats() {
  const MemoryLedger* ledger = impl_->options.ledger;
  const RankStats own = {impl_->executor->times().compute,
                         ledger ? ledger->peak_bytes(impl_->transport.rank()) : 0};
  const std::string bytes(reinterpret_cast<const char*>(&own), sizeof own);
  std::vector<RankStats> stats;
  for (const std::string& received : impl_->transport.all_gather(bytes, impl_->everybody())) {
    std::memcpy(&stats.emplace_back(), received.data(), sizeof(RankStats));
  }
  return stats;
}

std::vector<int> Trainer::gather_unsplit_stages() {
  std::string own;
  for (const auto& stage : impl_->stages) {
    if (!stage->splits_backward()) own += std::to_string(stage->index()) + ' ';
  }
  std::set<int> stages;
  for (const std::string& received : impl_->transport.all_gather(own, impl_->everybody())) {
    std::istringstream text(received);
    for (int stage = 0; text >> stage;) stages.insert(stage);
  }
  return {stages.begin(), stages.end()};
}

std::vector<ParameterInfo> Trainer::parameters() const {
  std::vector<ParameterInfo> all;
  for (const auto& stage : impl_->stages) {
    all.insert(all.end(), stage->parameters().begin(), stage->parameters().end());
  }
  return all;
}

const Optimizer& Trainer::optimizer() const { return impl_->ops->optimizer(); }
std::optional<std::int64_t> Trainer::weights_step() const {
  if (impl_->updating) return std::nullopt;
  return impl_->updated_step;
}
std::string Trainer::flight_record() const { return impl_->executor->flight_record(); }
int Trainer::current_instruction() const { return impl_->current_instruction; }

}  // namespace sluice
