#include <algorithm>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include "base/cuda_driver.h"
#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "config/batch_sizes.h"
#include "config/config_words.h"
#include "config/epochs.h"
#include "config/layout_free.h"
#include "config/machine_memory.h"
#include "config/memory_size.h"
#include "config/model_kinds.h"
#include "config/option_keys.h"
#include "config/origins.h"
#include "config/planned_device.h"
#include "config/run_config.h"
#include "kind/adapter_files.h"
#include "plan/choose/best.h"
#include "plan/data_parallel.h"
#include "plan/divided_layers.h"
#include "plan/optimizer_state.h"
#include "plan/option_words.h"
#include "plan/partition/evaluation_partition.h"
#include "plan/predict/layer_costs.h"
#include "plan/predict/layer_times.h"
#include "plan/trainable.h"
#include "report/candidates_output.h"
#include "sluice/error.h"
#include "sluice/model_spec.h"

namespace sluice {
namespace {

template <typename Enum>
std::string word(Enum value) {
  return detail::word_of(detail::words_of(value), value);
}

Precision precision_of(const RunConfig& config) {
  Precision precision = {.parameters = word(config.model.dtype)};
  if (config.training.mixed_precision != MixedPrecision::kNone)
    precision.products = word(config.training.mixed_precision);
  precision.fused = config.training.fused == FusedOperators::kAuto;
  precision.loss_chunks = config.training.loss_chunks;
  precision.loss_in_head = config.parallelism.pipeline.tensor_parallel.num_slices() > 1;
  return precision;
}

std::vector<std::string> cuts_of(const RunConfig& config) {
  const PartitionOptions& split = config.parallelism.pipeline.partition;
  std::vector<std::string> names = split.split_points;
  names.insert(names.end(), split.cuts.begin(), split.cuts.end());
  for (const std::vector<std::string>& stage : split.modules)
    names.insert(names.end(), stage.begin(), stage.end());
  return names;
}

void require_type_of_files(const RunConfig& config, const ModelKind& kind, const ModelSpec& model) {
  const std::string fixed = kind.fixed_dtype(model);
  if (fixed.empty() || fixed == word(config.model.dtype)) return;
  throw Error(
      ErrorKind::kUsage,
      {.what = formatted("the {} was exported in {}, and an exported graph has fixed types",
                         kind.key(), fixed),
       .where = config.origins.at(
           is_set(config, "model.dtype") ? "model.dtype" : formatted("model.{}", kind.key())),
       .remedy = formatted("set model.dtype = \"{}\", or export the model in {}", fixed,
                           word(config.model.dtype))});
}

// Rethrows errors of `call` with configuration keys and where they were set.
template <typename Call>
auto in_keys(const RunConfig& config, const Call& call) {
  try {
    return call();
  } catch (const RefusedSchedule&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kMemory) throw;
    throw detail::with_places(config, error);
  }
}

ModelSpec read_model(const RunConfig& config) {
  detail::require_supported_by_kind(config);
  ModelRequest request = {.path = detail::path_of_model(config),
                          .precision = precision_of(config),
                          .microbatch = {config.training.microbatch_size, config.training.seq_len},
                          .cuts = cuts_of(config),
                          .recomputed = config.training.activation_checkpoint.names,
                          .plans_only = config.plans_only,
                          .own = detail::own_keys_of(config)};
  if (request.path.empty()) {
    throw Error(ErrorKind::kUsage, {.what = "the configuration names no model",
                                    .where = config.file.empty() ? "model.path" : config.file,
                                    .remedy = "set model.path, model.config or model.graph"});
  }
  const ModelKind& kind = detail::kind_of(config);
  ModelSpec model = in_keys(config, [&] { return kind.read(request); });
  require_type_of_files(config, kind, model);
  return model;
}

RunConfig with_layout_slices(const RunConfig& config) {
  const bool has_adapter = config.lora.rank > 0 || !config.model.adapter.empty();
  if (config.training.layout_free == 0 || has_adapter ||
      !detail::has_feature(config, ModelFeature::kSlices))
    return config;
  const int all = static_cast<int>(config.training.layout_free);
  const ModelSpec divided = read_model(detail::with_slices(config, all));
  return detail::with_slices(config, detail::most_slices(config, divided));
}

Schedule schedule_of_file(const RunConfig& config) {
  const std::string& path = config.parallelism.schedule_csv;
  const PartitionOptions& options = config.parallelism.pipeline.partition;
  Schedule schedule = read_schedule_csv(path, options.stage_to_rank);
  if (!options.placement) return schedule;
  return read_schedule_csv(
      path,
      make_stage_map(*options.placement, schedule.num_ranks(), schedule.num_stages()).ranks());
}

PipelineOptions pipeline_options(const RunConfig& config, const ModelSpec& model) {
  PipelineOptions options = config.parallelism.pipeline;
  options.microbatch_size = config.training.microbatch_size;
  options.seq_len = config.training.seq_len;
  options.step_end = StepEnd::kUpdate;
  options.optimizer = kind_of_state(config.optimizer);
  options.trainable = config.training.trainable;
  options.activation_checkpoint = config.training.activation_checkpoint;
  if (model.source && !options.activation_checkpoint.names.empty()) {
    std::vector<std::string>& names = options.activation_checkpoint.names;
    names = model.source->layers_of(names, model.layers);
  }
  // Only saves during training copy the weights first (checkpoint.async).
  options.keeps_snapshot = config.checkpoint.async && config.checkpoint.interval.is_on();
  if (config.parallelism.schedule_csv.empty()) {
    options.num_microbatches = batch_sizes(config).num_microbatches;
    return options;
  }
  options.schedule.own = schedule_of_file(config);
  options.partition.stage_to_rank.clear();
  options.partition.placement.reset();
  return options;
}

bool names_cuts(const PartitionOptions& options) {
  return !options.split_points.empty() || !options.cuts.empty() || !options.modules.empty() ||
         options.layers_per_stage > 0 || options.first_stage_weight || options.last_stage_weight;
}

// With an automatic schedule, balances the split by measured times, unless the configuration sets a
// split.
Balance balance_of(const RunConfig& config) {
  if (config.parallelism.partition != Balance::kEven) return config.parallelism.partition;
  const PipelineOptions& pipeline = config.parallelism.pipeline;
  const bool is_free = pipeline.schedule.is_auto && !is_set(config, "parallelism.partition") &&
                       !names_cuts(pipeline.partition);
  return is_free ? Balance::kMeasured : Balance::kEven;
}

std::int64_t num_ranks(const RunConfig& config) {
  const PipelineOptions& pipeline = config.parallelism.pipeline;
  return detail::ranks_of_run(pipeline);
}

std::int64_t share_of_cores(const RunConfig& config) {
  return std::max<std::int64_t>(
      1, std::int64_t{std::thread::hardware_concurrency()} / num_ranks(config));
}

constexpr std::int64_t kUnknownThreads = 0;

bool chooses_by_memory(const RunConfig& config) {
  return config.parallelism.pipeline.schedule.is_auto || balance_of(config) != Balance::kEven;
}

std::string recomputed_text(const ActivationCheckpoint& which) {
  if (which.kind == ActivationCheckpoint::kNone) return "none";
  return which.kind == ActivationCheckpoint::kFull ? "full" : join(which.names, ",");
}

// Returns a warning if the layer times may not fit the run, or "".
std::string require_times_of_run(const RunConfig& config, const ModelSpec& model,
                                 const MeasuredMachine* measured, const LayerTimes& times) {
  std::optional<std::int64_t> threads;
  if (measured) threads = measured->threads_per_rank;
  if (threads == kUnknownThreads) threads = times.of.threads_per_rank;
  return require_times_of(times, model, timed_run_of(config, model, threads));
}

struct Asked {
  ModelSpec model;
  std::optional<Adapter> adapter;
  PipelineOptions options;
  std::vector<std::string> notes, warnings;
};

LayerTimes counted_times_of(const Asked& asked) {
  ModelSpec model = asked.model;
  const PipelineOptions& options = asked.options;
  detail::set_trainable(model, options.trainable);
  detail::freeze_layers(model, options.frozen_layers);
  return counted_times(model, {options.microbatch_size, options.seq_len}, options.optimizer);
}

std::shared_ptr<const LayerTimes> times_at_speed(const RunConfig& config, const Asked& asked) {
  if (!config.parallelism.costs.empty()) {
    throw Error(ErrorKind::kUsage, {.what = "parallelism.costs and --flops exclude each other",
                                    .where = "--flops",
                                    .remedy = "keep one of them"});
  }
  return std::make_shared<const LayerTimes>(
      at_speed(counted_times_of(asked), config.speed->flops, config.speed->bandwidth));
}

// Takes costs of layers from parallelism.costs: measured by sluice, or written elsewhere.
void set_times_of_file(const RunConfig& config, const MeasuredMachine* measured, Asked& asked) {
  constexpr std::size_t kMaxCostsBytes = std::size_t{64} << 20;
  const std::string& file = config.parallelism.costs;
  const std::string text = read_text_or_pipe(file, kMaxCostsBytes, ErrorKind::kInput);
  PipelineOptions& options = asked.options;
  if (is_measured_here(text)) {
    options.times = std::make_shared<const LayerTimes>(parse_layer_times(text, file));
    std::string warning = require_times_of_run(config, asked.model, measured, *options.times);
    if (!warning.empty()) asked.warnings.push_back(std::move(warning));
    return;
  }
  CostedModel costed =
      with_layer_costs(parse_layer_costs(text, file), std::move(asked.model),
                       {options.microbatch_size, options.seq_len}, options.optimizer);
  asked.model = std::move(costed.model);
  options.times = std::make_shared<const LayerTimes>(std::move(costed.times));
  asked.notes.insert(asked.notes.end(), costed.notes.begin(), costed.notes.end());
  if (options.balance == Balance::kEven && !names_cuts(options.partition)) {
    asked.notes.emplace_back(
        "the split is by numbers of layers; parallelism.partition = \"measured\" splits by these "
        "costs");
  }
}

void set_times(const RunConfig& config, const MeasuredMachine* measured, Asked& asked) {
  PipelineOptions& options = asked.options;
  const std::string& file = config.parallelism.costs;
  std::shared_ptr<const LayerTimes>& times = options.times;
  if (config.speed) {
    times = times_at_speed(config, asked);
    if (options.balance == Balance::kMeasured) options.balance = Balance::kCost;
  } else if (!file.empty()) {
    set_times_of_file(config, measured, asked);
  } else if (measured && !measured->times.empty()) {
    // The times may come from another process, so do not compare its cores with this machine's.
    times =
        std::make_shared<const LayerTimes>(parse_layer_times(measured->times, "the measurement"));
  }
  if (!times && options.balance == Balance::kMeasured) {
    options.balance = Balance::kCost;
    asked.notes.emplace_back(
        "counted costs stand for the times that a run measures at its start; parallelism.costs "
        "takes a file of `sluice plan --measure`");
  }
  options.memory_per_rank = device_memory_bytes(config);
  const PlannedDevice device = planned_device(config.training.device, num_ranks(config));
  if (config.parallelism.transport == TransportKind::kNccl && !device.is_cuda &&
      driver_devices().empty()) {
    throw Error(ErrorKind::kUsage,
                {.what = "parallelism.transport = \"nccl\" is for GPUs, and this machine has none",
                 .where = config.origins.at("parallelism.transport"),
                 .remedy = "write \"auto\" or \"gloo\"; to plan for other machines set "
                           "training.device to \"cuda\""});
  }
  if (!device.note.empty() && !config.speed) asked.notes.push_back(device.note);
  if (!options.memory_per_rank && !config.speed) options.memory_per_rank = device.bytes;
  if (options.memory_per_rank || config.speed || !chooses_by_memory(config)) return;
  options.memory_per_rank =
      measured ? measured->memory_per_rank : machine_memory_bytes() / num_ranks(config);
}

// The planner does not know the batch size, so check it here.
void require_batch_fits(const RunConfig& config, const Schedule& schedule) {
  const BatchSizes found = batch_sizes(config);
  if (schedule.num_microbatches == found.num_microbatches) return;
  const bool is_global = config.training.global_batch_size > 0;
  const std::int64_t replicas = is_global ? config.parallelism.pipeline.data_parallel.degree : 1;
  const std::int64_t batch = schedule.num_microbatches * config.training.microbatch_size * replicas;
  const std::string key = is_global ? "training.global_batch_size" : "training.local_batch_size";
  throw Error(ErrorKind::kUsage,
              {.what = formatted("the schedule {} has {}, but {} / {}training.microbatch_size = {}",
                                 schedule.name, counted(schedule.num_microbatches, "microbatch"),
                                 key, is_global ? "parallelism.data_parallel_degree / " : "",
                                 found.num_microbatches),
               .where = config.origins.at("parallelism.pipeline_parallel_schedule_csv"),
               .remedy = formatted("set {} = {}", key, batch)});
}

struct Idle {
  const char* key;
  bool has_no_effect;
  std::string because;
};

bool validates_training_files(const RunConfig& config) {
  if (config.validation.files.empty()) return false;
  try {
    const std::vector<std::string> trained = expand_data_files(config),
                                   validated = expand_validation_files(config);
    return std::any_of(validated.begin(), validated.end(), [&](const std::string& file) {
      return std::find(trained.begin(), trained.end(), file) != trained.end();
    });
  } catch (const Error&) {
    return false;
  }
}

std::vector<Idle> unused_settings(const RunConfig& config) {
  const PipelineOptions& pipeline = config.parallelism.pipeline;
  const bool is_sgd = config.optimizer.kind == OptimizerKind::kSgd;
  const bool has_replicas = pipeline.data_parallel.degree > 1;
  const bool has_rows = !config.validation.files.empty() || config.validation.split > 0;
  const bool validates = config.validation.interval.is_on();
  const std::string one_replica = "parallelism.data_parallel_degree = 1";
  const std::string sgd = "optimizer.name = \"SGD\"";
  const int num_axes =
      (pipeline.num_ranks.value_or(1) > 1) + has_replicas + (pipeline.tensor_parallel.degree > 1);
  return {{"lr_scheduler.min_lr_factor", config.lr_scheduler.decay == Decay::kConstant,
           "lr_scheduler.decay = \"constant\""},
          {"optimizer.betas", is_sgd, sgd},
          {"optimizer.eps", is_sgd, sgd},
          {"optimizer.momentum", !is_sgd && config.optimizer.momentum > 0,
           "optimizer.name = \"AdamW\""},
          {"optimizer.no_decay", config.optimizer.weight_decay == 0, "optimizer.weight_decay = 0"},
          {"parallelism.zero1", pipeline.data_parallel.zero1 && !has_replicas, one_replica},
          {"parallelism.zero3", pipeline.data_parallel.zero3 && !has_replicas, one_replica},
          {"parallelism.reduction",
           pipeline.data_parallel.reduction == Reduction::kFast && !has_replicas, one_replica},
          {"parallelism.reduce_grad_per_microbatch",
           pipeline.data_parallel.per_microbatch && !has_replicas, one_replica},
          {"parallelism.rank_order", num_axes < 2, "ranks differ along one axis alone"},
          {"parallelism.sequence_parallel", pipeline.tensor_parallel.num_slices() == 1,
           "parallelism.tensor_parallel_slices = 1"},
          {"training.loss_chunks",
           config.training.fused == FusedOperators::kOff &&
               config.training.loss_chunks == LossChunks::kOn,
           "training.fused = \"off\""},
          {"checkpoint.keep_every",
           config.checkpoint.keep_every > 0 && !config.checkpoint.interval.is_on(),
           "checkpoint.interval = 0"},
          {"checkpoint.allow",
           !config.checkpoint.allow.empty() && config.checkpoint.resume.kind == ResumeFrom::kNone,
           "checkpoint.resume = \"none\""},
          {"validation.steps", !has_rows || !validates,
           has_rows ? "validation.interval = 0" : "there are no validation.files"},
          {"validation.prompt_tokens", config.validation.prompts.empty() || !validates,
           config.validation.prompts.empty() ? "there are no validation.prompts"
                                             : "validation.interval = 0"}};
}

std::vector<std::string> warnings_of(const RunConfig& config, const Plan& plan) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& key, const std::string& text) {
    warnings.push_back(detail::with_place(config, key, key + text));
  };
  if (config.training.epochs == 0) {
    const std::string warmup = warmup_warning(config);
    if (!warmup.empty()) warnings.push_back(warmup);
  }
  for (const char* key : {"lora.alpha", "lora.dropout", "lora.target"}) {
    const bool has_one = !config.model.adapter.empty() || is_set(config, "lora.rank");
    if (!has_one && is_set(config, key))
      warn(key, " is given, but lora.rank = 0: there is no adapter");
  }
  for (const auto& [key, is_given] :
       {std::pair("validation.files", !config.validation.files.empty()),
        std::pair("validation.split", config.validation.split > 0),
        std::pair("validation.prompts", !config.validation.prompts.empty())}) {
    if (is_given && !config.validation.interval.is_on())
      warn(key, " is given, but validation.interval = 0: no validation is taken");
  }
  for (const Idle& idle : unused_settings(config)) {
    if (idle.has_no_effect && is_set(config, idle.key))
      warn(idle.key, " has no effect: " + idle.because);
  }
  const std::int64_t cores = std::thread::hardware_concurrency();
  if (cores > 0 && config.training.threads_per_rank > cores) {
    warn("training.threads_per_rank",
         formatted(" = {} is more than the {} of this machine: threads wait for each other",
                   config.training.threads_per_rank, counted(cores, "core")));
  }
  if (config.validation.interval.is_on() && validates_training_files(config)) {
    warn("validation.files",
         " shares files with data.files: the validation loss includes rows that were trained on");
  }
  for (const std::string& warning : plan.warnings)
    warnings.push_back(detail::with_keys_and_place(config, warning));
  return warnings;
}

std::string adapter_note(const Adapter& adapter, const ModelSpec& model) {
  return "an adapter of " +
         counted(static_cast<std::int64_t>(adapter.layers.size()), "linear layer") +
         " trains: " + with_commas(adapter_alone(model).num_parameters()) + " of " +
         with_commas(model.num_parameters()) + " parameters";
}

Asked asked_of(const RunConfig& given, const MeasuredMachine* measured) {
  const RunConfig config = with_layout_slices(given);
  Asked asked = {.model = read_model(config)};
  asked.adapter = adapter_of_config(config, asked.model);
  if (asked.adapter)
    asked.model = with_adapter(std::move(asked.model), *asked.adapter, precision_of(config));
  in_keys(config, [&] {
    detail::no_decay_patterns(asked.model, config.optimizer.no_decay);
    detail::require_divided_layers(asked.model, config.parallelism.pipeline.tensor_parallel);
    asked.options = pipeline_options(config, asked.model);
    asked.options.balance = balance_of(config);
    set_times(config, measured, asked);
  });
  return asked;
}

PipelineOptions with_free_schedule(PipelineOptions options) {
  options.schedule = "auto";
  PartitionOptions& partition = options.partition;
  partition.stages_per_rank = 0;
  partition.num_stages = 0;
  return options;
}

// For example "llama on 4 ranks, 8 microbatches of 1 x 512 tokens".
std::string subject_of(const Asked& asked) {
  const PipelineOptions& options = asked.options;
  return formatted("{} on {}, {} of {}", asked.model.family,
                   counted(options.num_ranks.value_or(1), "rank"),
                   counted(options.num_microbatches.value_or(1), "microbatch"),
                   microbatch_text(asked.model, {options.microbatch_size, options.seq_len}));
}

ScheduleCandidate configured_candidate(const Asked& asked) {
  const PipelineOptions& options = asked.options;
  ScheduleCandidate named;
  try {
    return detail::candidate_of(plan_pipeline(asked.model, options));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    named.refusal = error.fact();
  }
  named.name = options.schedule.own ? options.schedule.own->name
                                    : options.schedule.name.value_or(ScheduleKind::k1F1B).text();
  named.stages_per_rank = std::max(1, options.partition.stages_per_rank);
  return named;
}

bool comes_first(const ScheduleCandidate& a, const ScheduleCandidate& b) {
  if (a.refusal.empty() != b.refusal.empty()) return a.refusal.empty();
  if (!a.refusal.empty()) return false;
  // Float precision, so that rounding errors do not order equal step times.
  const auto key = [](const ScheduleCandidate& each) {
    return std::tuple(static_cast<float>(each.step), each.stages_per_rank, each.peak_bytes);
  };
  return key(a) < key(b);
}

// Adds the configured schedule if the search did not find it.
void mark_configured(const ScheduleCandidate& configured, Comparison& comparison) {
  std::vector<ScheduleCandidate>& all = comparison.candidates;
  auto found = std::find_if(all.begin(), all.end(), [&](const ScheduleCandidate& each) {
    if (each.name != configured.name) return false;
    return configured.refusal.empty()
               ? each.stages_per_rank == configured.stages_per_rank && each.step == configured.step
               : each.refusal == configured.refusal;
  });
  if (found == all.end())
    found =
        all.insert(std::upper_bound(all.begin(), all.end(), configured, comes_first), configured);
  comparison.asked = found - all.begin();
}

}  // namespace

ModelSpec model_of_config(const RunConfig& config) {
  return read_model(with_layout_slices(config));
}

bool needs_measurement(const RunConfig& config) {
  return config.parallelism.costs.empty() && balance_of(config) == Balance::kMeasured;
}

bool depends_on_machine(const RunConfig& config) {
  const bool takes_memory = chooses_by_memory(config) && config.parallelism.device_memory.empty();
  const bool takes_cores =
      !config.parallelism.costs.empty() && config.training.threads_per_rank == 0;
  return needs_measurement(config) || takes_memory || takes_cores;
}

std::optional<std::int64_t> device_memory_bytes(const RunConfig& config) {
  const std::string& text = config.parallelism.device_memory;
  return text.empty() ? std::nullopt : detail::bytes_of_text(text);
}

TimedRun timed_run_of(const RunConfig& config, const ModelSpec& model,
                      std::optional<std::int64_t> threads_per_rank) {
  ModelSpec trained = model;
  detail::set_trainable(trained, config.training.trainable);
  TimedRun run;
  run.model = fingerprint_of(trained);
  run.family = model.family;
  run.microbatch = {config.training.microbatch_size, config.training.seq_len};
  run.threads_per_rank = config.training.threads_per_rank;
  if (run.threads_per_rank == 0)
    run.threads_per_rank = threads_per_rank.value_or(share_of_cores(config));
  run.dtype = word(config.model.dtype);
  run.mixed_precision = word(config.training.mixed_precision);
  run.operators = word(config.training.fused);
  if (model.layers.back().loss_by_blocks) run.operators += ", loss by blocks";
  run.optimizer = word(kind_of_state(config.optimizer));
  run.recomputed = recomputed_text(config.training.activation_checkpoint);
  run.transport = word(config.parallelism.transport);
  run.cpu = cpu_name();
  return run;
}

Plan plan_of_config(const RunConfig& config, const MeasuredMachine* measured) {
  Asked asked = asked_of(config, measured);
  Plan plan = in_keys(config, [&] {
    Plan made = plan_pipeline(std::move(asked.model), asked.options);
    if (config.validation.interval.is_on()) require_evaluation(made);
    return made;
  });
  plan.notes.insert(plan.notes.begin(), asked.notes.begin(), asked.notes.end());
  if (!config.parallelism.schedule_csv.empty()) require_batch_fits(config, plan.schedule);
  for (std::string& note : plan.notes) note = detail::with_keys(note);
  if (asked.adapter)
    plan.notes.insert(plan.notes.begin(), adapter_note(*asked.adapter, plan.model));
  plan.warnings = warnings_of(config, plan);
  plan.warnings.insert(plan.warnings.end(), asked.warnings.begin(), asked.warnings.end());
  return plan;
}

std::string layout_free_memory_cost(const RunConfig& config, const Plan& plan,
                                    const MeasuredMachine* measured) {
  if (config.training.layout_free == 0) return {};
  const int shards = plan.options.data_parallel.num_shards(),
            slices = plan.options.tensor_parallel.num_slices();
  std::string text =
      formatted("training.layout_free = {}: gradients add up in {}, each layer is computed in {}",
                config.training.layout_free, counted(shards, "shard"), counted(slices, "slice"));
  if (config.parallelism.pipeline.schedule.is_auto)
    return text;  // no comparison, because without layout_free another schedule might be chosen
  RunConfig without = config;
  without.training.layout_free = 0;
  without.parallelism.pipeline.data_parallel.shards = 0;
  const auto peak_of = [](const Plan& each) {
    std::int64_t peak = 0;
    for (const RankPrediction& rank : each.ranks) peak = std::max(peak, rank.memory.total_bytes());
    return peak;
  };
  return text + formatted("; its price on the fullest rank: {} of memory instead of {}",
                          human_bytes(peak_of(plan)),
                          human_bytes(peak_of(plan_of_config(without, measured))));
}

Comparison compare_schedules(const RunConfig& config) {
  Asked asked = asked_of(config, nullptr);
  PipelineOptions& options = asked.options;
  if (!options.memory_per_rank && !config.speed)  // a GPU's memory is set already
    options.memory_per_rank = machine_memory_bytes() / num_ranks(config);
  // Compute counted times. Otherwise, every stage would seem to take equally long.
  detail::LookedAt looked = in_keys(config, [&] {
    if (!options.times && options.balance == Balance::kEven)
      options.times = std::make_shared<const LayerTimes>(counted_times_of(asked));
    return detail::look_at_all(asked.model, with_free_schedule(options));
  });
  Comparison comparison = {.candidates = std::move(looked.candidates),
                           .basis = {.unit = looked.time_unit,
                                     .measured = looked.measured,
                                     .replicated = options.data_parallel.degree > 1},
                           .memory_per_rank = options.memory_per_rank,
                           .subject = subject_of(asked),
                           .notes = std::move(asked.notes)};
  std::vector<ScheduleCandidate>& all = comparison.candidates;
  std::stable_sort(all.begin(), all.end(), comes_first);
  if (!options.schedule.is_auto) mark_configured(configured_candidate(asked), comparison);
  for (ScheduleCandidate& each : all) {
    each.refusal = detail::with_keys(each.refusal);
    each.taken = &each == &all.front() && each.refusal.empty();
  }
  return comparison;
}

void check_plan_without_measurement(const RunConfig& config) {
  const MeasuredMachine untold = {.times = {},
                                  .memory_per_rank = machine_memory_bytes() / num_ranks(config),
                                  .threads_per_rank = kUnknownThreads};
  try {
    plan_of_config(config, &untold);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMemory) throw;
  }
}

}  // namespace sluice
