// The plan that a configuration asks for: keys into options, and what is said of options back into
// keys.
#include <utility>

#include "base/text.h"
#include "config/batch_sizes.h"
#include "config/origins.h"
#include "config/plan_words.h"
#include "sluice/error.h"
#include "sluice/parts/precision.h"
#include "sluice/run_config.h"

namespace sluice {
namespace {

Precision precision_of(const RunConfig& config) {
  Precision precision = {.parameters = config.model.dtype};
  if (config.training.mixed_precision != "none")
    precision.products = config.training.mixed_precision;
  precision.fused = config.training.fused == "auto";
  return precision;
}

ModelSpec read_model(const RunConfig& config) {
  const std::string& path = config.model.path.empty() ? config.model.config : config.model.path;
  if (path.empty()) {
    throw Error(ErrorKind::kUsage, {.what = "the configuration names no model",
                                    .where = config.file.empty() ? "model.path" : config.file,
                                    .remedy = "set model.path or model.config"});
  }
  return read_model_spec(path, precision_of(config));
}

// The schedule of the file, its stages where the configuration has them.
Schedule schedule_of_file(const RunConfig& config) {
  const std::string& path = config.parallelism.schedule_csv;
  const PartitionOptions& options = config.parallelism.pipeline.partition;
  Schedule schedule = read_schedule_csv(path, options.stage_to_rank);
  if (!options.placement) return schedule;
  return read_schedule_csv(
      path,
      make_stage_map(*options.placement, schedule.num_ranks(), schedule.num_stages()).ranks());
}

PipelineOptions pipeline_options(const RunConfig& config) {
  PipelineOptions options = config.parallelism.pipeline;
  options.microbatch_size = config.training.microbatch_size;
  options.seq_len = config.training.seq_len;
  options.optimizer = config.optimizer.kind;
  options.trainable = config.training.trainable;
  options.activation_checkpoint = config.training.activation_checkpoint;
  // The weights of the end alone are written when the training is over, from where they are.
  options.keeps_snapshot = config.checkpoint.async && config.checkpoint.interval > 0;
  if (config.parallelism.schedule_csv.empty()) {
    options.num_microbatches = batch_sizes(config).num_microbatches;
    return options;
  }
  options.own_schedule = schedule_of_file(config);
  options.partition.stage_to_rank.clear();
  options.partition.placement.reset();
  return options;
}

// A batch is counted in sequences, of which the planner knows nothing.
void require_batch_fits(const RunConfig& config, const Schedule& schedule) {
  const BatchSizes found = batch_sizes(config);
  if (schedule.num_microbatches == found.num_microbatches) return;
  const bool is_global = config.training.global_batch_size > 0;
  const std::int64_t replicas = is_global ? config.parallelism.pipeline.data_parallel.degree : 1;
  const std::int64_t batch = schedule.num_microbatches * config.training.microbatch_size * replicas;
  const std::string key = is_global ? "training.global_batch_size" : "training.local_batch_size";
  throw Error(ErrorKind::kUsage,
              {.what = "the schedule " + schedule.name + " has " +
                       counted(schedule.num_microbatches, "microbatch") + ", but " + key + " / " +
                       (is_global ? "parallelism.data_parallel_degree / " : "") +
                       "training.microbatch_size = " + std::to_string(found.num_microbatches),
               .where = config.origins.at("parallelism.pipeline_parallel_schedule_csv"),
               .remedy = key + " = " + std::to_string(batch)});
}

// A warning of the key that it begins with, and where that was given.
std::string with_place(const RunConfig& config, const std::string& warning) {
  const auto key = config.origins.find(warning.substr(0, warning.find(' ')));
  const bool given = key != config.origins.end() && key->second != "default";
  return given ? warning + "; " + key->second : warning;
}

std::vector<std::string> warnings_of(const RunConfig& config, const Plan& plan) {
  std::vector<std::string> warnings;
  if (config.lr_scheduler.warmup_steps > config.training.steps) {
    warnings.push_back(
        "lr_scheduler.warmup_steps = " + std::to_string(config.lr_scheduler.warmup_steps) +
        " is more than training.steps = " + std::to_string(config.training.steps) +
        ": the rate never reaches optimizer.lr");
  }
  for (const char* key : {"lora.alpha", "lora.dropout", "lora.target"}) {
    const bool has_one = !config.model.adapter.empty() || is_set(config, "lora.rank");
    if (!has_one && is_set(config, key))
      warnings.push_back(std::string(key) + " is given, but lora.rank = 0: there is no adapter");
  }
  for (const std::string& warning : plan.warnings) warnings.push_back(detail::with_keys(warning));
  for (std::string& warning : warnings) warning = with_place(config, warning);
  return warnings;
}

std::string adapter_note(const Adapter& adapter, const ModelSpec& model) {
  return "an adapter of " +
         counted(static_cast<std::int64_t>(adapter.layers.size()), "linear layer") +
         " trains: " + with_commas(adapter_alone(model).num_parameters()) + " of " +
         with_commas(model.num_parameters()) + " parameters";
}

}  // namespace

Plan plan_of_config(const RunConfig& config) {
  ModelSpec model = read_model(config);
  const std::optional<Adapter> adapter = adapter_of_config(config, model);
  if (adapter) model = with_adapter(std::move(model), *adapter, precision_of(config));
  Plan plan;
  try {
    plan = plan_pipeline(std::move(model), pipeline_options(config));
  } catch (const RefusedSchedule&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    throw detail::with_places(config, error);
  }
  if (!config.parallelism.schedule_csv.empty()) require_batch_fits(config, plan.schedule);
  for (std::string& note : plan.notes) note = detail::with_keys(note);
  if (adapter) plan.notes.insert(plan.notes.begin(), adapter_note(*adapter, plan.model));
  plan.warnings = warnings_of(config, plan);
  return plan;
}

}  // namespace sluice
