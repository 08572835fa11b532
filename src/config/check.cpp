#include "config/check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "config/batch_sizes.h"
#include "config/config_words.h"
#include "config/key_table.h"
#include "config/option_keys.h"
#include "config/origins.h"
#include "data/row_shape.h"
#include "plan/data_parallel.h"
#include "plan/option_words.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

std::string where_of(const RunConfig& config, const std::string& key, const std::string& other) {
  const std::string& origin = config.origins.at(key);
  return origin != "default" ? origin : config.origins.at(other);
}

void refuse_both(const RunConfig& config, const std::string& key, const std::string& other,
                 const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = key + " and " + other + " exclude each other",
                                  .where = where_of(config, other, key),
                                  .remedy = remedy});
}

// torch promotes float16 plus bfloat16 to float32, but the plan expects 16 bits between layers.
void check_precision(const RunConfig& config) {
  const MixedPrecision products = config.training.mixed_precision;
  if (config.model.dtype != ParameterType::kFloat16 || products == MixedPrecision::kNone) return;
  const std::string word = word_of(words_of(products), products);
  throw Error(ErrorKind::kUsage,
              {.what = "model.dtype = \"float16\" and training.mixed_precision = \"" + word +
                       "\" exclude each other",
               .where = where_of(config, "training.mixed_precision", "model.dtype"),
               .remedy = "set model.dtype = \"float32\" for products in " + word +
                         " and weights in float32"});
}

void require_multiple(const RunConfig& config, const std::string& key, std::int64_t batch,
                      const std::string& of, std::int64_t step) {
  if (batch % step == 0) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("{} = {} is not a multiple of {} = {}", key, batch, of, step),
               .where = where_of(config, key, "training.microbatch_size"),
               .remedy = "the nearest batch is " + nearest_multiples(batch, step)});
}

void check_batch(const RunConfig& config) {
  const TrainingOptions& training = config.training;
  const std::int64_t replicas = config.parallelism.pipeline.data_parallel.degree;
  if (training.global_batch_size == 0) {
    require_multiple(config, kLocalBatch, training.local_batch_size, "training.microbatch_size",
                     training.microbatch_size);
    return;
  }
  if (is_set(config, kLocalBatch))
    refuse_both(config, kLocalBatch, kGlobalBatch, "keep one of them");
  require_multiple(config, kGlobalBatch, training.global_batch_size,
                   "parallelism.data_parallel_degree x training.microbatch_size",
                   replicas * training.microbatch_size);
}

// The planner does not know the batch size, so check here that the shards divide it.
void check_shards(const RunConfig& config) {
  const DataParallel& options = config.parallelism.pipeline.data_parallel;
  if (!detail::sums_in_shards(options) || options.num_shards() % options.degree != 0) return;
  const BatchSizes sizes = batch_sizes(config);
  const std::int64_t each = options.num_shards() / options.degree;
  if (sizes.num_microbatches % each == 0) return;
  const bool is_global = config.training.global_batch_size > 0;
  const std::string key = is_global ? kGlobalBatch : kLocalBatch;
  const std::int64_t unit = config.training.microbatch_size * (is_global ? options.degree : 1);
  throw Error(ErrorKind::kUsage,
              {.what = formatted(
                   "parallelism.data_parallel_shards = {} does not divide the {} of a step",
                   options.num_shards(),
                   counted(std::int64_t{sizes.num_microbatches} * options.degree, "microbatch")),
               .where = where_of(config, "parallelism.data_parallel_shards", key),
               .remedy = "the nearest " + key + " is " +
                         nearest_multiples(sizes.num_microbatches * unit, each * unit)});
}

void check_transport(const RunConfig& config) {
  if (config.parallelism.transport != TransportKind::kNccl ||
      config.training.device != DeviceKind::kCpu)
    return;
  throw Error(ErrorKind::kUsage,
              {.what = "parallelism.transport = \"nccl\" is for GPUs, and training.device is "
                       "\"cpu\"",
               .where = where_of(config, "parallelism.transport", "training.device"),
               .remedy = "write \"gloo\", or set training.device to \"cuda\""});
}

void check_schedule(const RunConfig& config) {
  if (config.parallelism.schedule_csv.empty()) return;
  const PartitionOptions& options = config.parallelism.pipeline.partition;
  const std::pair<bool, const char*> others[] = {
      {options.layers_per_stage != 0, "pipeline_parallel_layers_per_stage"},
      {options.stages_per_rank != 0, "pipeline_parallel_stages_per_rank"},
      {options.rounding != Rounding::kNone, "round_virtual_stages_to_pp_multiple"}};
  for (const auto& [given, name] : others) {
    if (!given) continue;
    refuse_both(config, std::string("parallelism.") + name,
                "parallelism.pipeline_parallel_schedule_csv",
                "leave it out: the schedule file sets the number of stages");
  }
}

void check_split(const RunConfig& config) {
  const PartitionOptions& options = config.parallelism.pipeline.partition;
  std::vector<std::string> given;
  const auto add = [&](bool is_given, const char* name) {
    if (is_given) given.push_back(std::string("parallelism.") + name);
  };
  add(!options.split_points.empty(), "pipeline_parallel_split_points");
  add(!options.cuts.empty(), "pipeline_parallel_cuts");
  add(!options.modules.empty(), "module_fqns_per_model_part");
  // torchtitan uses split points and ignores layers_per_stage if both are set, so accept both.
  const bool points_win =
      !options.split_points.empty() && options.convention.text().starts_with("torchtitan");
  add(options.layers_per_stage > 0 && !points_win, "pipeline_parallel_layers_per_stage");
  if (given.size() > 1) refuse_both(config, given[0], given[1], "keep one of them");
}

void check_balance(const RunConfig& config) {
  const Balance partition = config.parallelism.partition;
  if (partition == Balance::kEven) return;
  const PartitionOptions& options = config.parallelism.pipeline.partition;
  const std::pair<bool, const char*> others[] = {
      {!options.split_points.empty(), "pipeline_parallel_split_points"},
      {!options.cuts.empty(), "pipeline_parallel_cuts"},
      {!options.modules.empty(), "module_fqns_per_model_part"},
      {options.layers_per_stage != 0, "pipeline_parallel_layers_per_stage"},
      {options.first_stage_weight.has_value(), "first_stage_weight"},
      {options.last_stage_weight.has_value(), "last_stage_weight"}};
  for (const auto& [given, name] : others) {
    if (!given) continue;
    refuse_both(
        config, "parallelism.partition", std::string("parallelism.") + name,
        "\"" + word_of(words_of(partition), partition) + "\" chooses the cuts: keep one of them");
  }
}

void check_auto(const RunConfig& config) {
  if (!config.parallelism.pipeline.schedule.is_auto || config.parallelism.schedule_csv.empty())
    return;
  refuse_both(config, "parallelism.pipeline_parallel_schedule",
              "parallelism.pipeline_parallel_schedule_csv",
              "keep one of them: both set the schedule");
}

void check_stage_to_rank(const RunConfig& config) {
  const int num_ranks = config.parallelism.pipeline.num_ranks.value_or(1);
  for (const int rank : config.parallelism.pipeline.partition.stage_to_rank) {
    if (rank < num_ranks) continue;
    throw Error(ErrorKind::kUsage,
                {.what = formatted("parallelism.stage_to_rank names rank {}, but "
                                   "parallelism.pipeline_parallel_degree = {}",
                                   rank, num_ranks),
                 .where = config.origins.at("parallelism.stage_to_rank"),
                 .remedy = "ranks are 0 to " + std::to_string(num_ranks - 1)});
  }
}

// An exported graph has fields of its own, which are not known here.
void check_rows(const RunConfig& config) {
  try {
    data::SourceOptions counted;
    data::set_counted_messages(config.data, counted);
    if (config.model.graph.empty()) data::check_field_names(config.data.fields, {});
  } catch (const Error& error) {
    throw with_places(config, error);
  }
}

void check_validation(const RunConfig& config) {
  const ValidationOptions& options = config.validation;
  if (options.split > 0 && !options.files.empty())
    refuse_both(config, "validation.files", "validation.split", "keep one of them");
  if (options.split > 1 && options.split != std::floor(options.split)) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("validation.split = {} is neither a share nor a number of rows",
                                   shortest(options.split)),
                 .where = config.origins.at("validation.split"),
                 .remedy = "write a share below 1, such as 0.05, or a whole number of rows"});
  }
  const bool has_rows = !options.files.empty() || options.split > 0;
  if (!options.interval.is_on() || has_rows || !options.prompts.empty()) return;
  throw Error(ErrorKind::kUsage,
              {.what = "validation.interval is set, but there are neither validation.files nor "
                       "validation.split nor validation.prompts",
               .where = config.origins.at("validation.interval"),
               .remedy = "for example validation.split = 0.05, or validation.files = "
                         "[\"held-out/*.txt\"]"});
}

void check_epochs(const RunConfig& config) {
  if (config.training.epochs == 0) return;
  if (is_set(config, "training.steps"))
    refuse_both(config, "training.steps", "training.epochs", "keep one of them");
  if (!config.data.weights.empty()) {
    refuse_both(config, "training.epochs", "data.weights",
                "set training.steps: with weights, each entry has epochs of its own");
  }
}

void check_warmup(const RunConfig& config) {
  if (config.lr_scheduler.warmup_ratio > 0 && is_set(config, "lr_scheduler.warmup_steps"))
    refuse_both(config, "lr_scheduler.warmup_steps", "lr_scheduler.warmup_ratio",
                "keep one of them");
}

}  // namespace

std::vector<Error> unbuilt_errors(const RunConfig& config, const Unbuilt& unbuilt) {
  std::vector<Error> errors;
  for (const auto& [key, value] : unbuilt) {
    if (value == key->default_value()) continue;
    errors.emplace_back(
        ErrorKind::kUsage,
        ErrorText{.what = formatted("{} = {} is not built yet", key->full_name(), to_toml(value)),
                  .where = config.origins.at(key->full_name()),
                  .remedy = "write " + to_toml(key->default_value())});
  }
  return errors;
}

void check_together(const RunConfig& config) {
  if (!config.model.path.empty() && !config.model.config.empty()) {
    refuse_both(config, "model.path", "model.config",
                "keep model.path to load weights, or model.config to initialise them");
  }
  check_precision(config);
  check_batch(config);
  check_shards(config);
  check_transport(config);
  check_schedule(config);
  check_split(config);
  check_balance(config);
  check_auto(config);
  check_stage_to_rank(config);
  check_rows(config);
  check_validation(config);
  check_epochs(config);
  check_warmup(config);
}

}  // namespace sluice::detail
