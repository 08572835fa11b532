#include "config/check.h"

#include <algorithm>

#include "base/text.h"
#include "config/key_table.h"
#include "sluice/error.h"
#include "sluice/schedule.h"

namespace sluice::detail {
namespace {

bool is_set(const RunConfig& config, const std::string& key) {
  return config.origins.at(key) != "default";
}

// The place of the key that was given last, of those that contradict.
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

void check_batch(const RunConfig& config) {
  const std::int64_t batch = config.training.local_batch_size;
  const std::int64_t microbatch = config.training.microbatch_size;
  if (batch % microbatch == 0) return;
  const std::int64_t below = batch / microbatch * microbatch;
  const std::string near = (below > 0 ? std::to_string(below) + " or " : std::string()) +
                           std::to_string(below + microbatch);
  throw Error(
      ErrorKind::kUsage,
      {.what = "training.local_batch_size = " + std::to_string(batch) +
               " is not a multiple of training.microbatch_size = " + std::to_string(microbatch),
       .where = where_of(config, "training.local_batch_size", "training.microbatch_size"),
       .remedy = "the nearest batch is " + near});
}

void check_schedule(const RunConfig& config) {
  const ParallelismOptions& options = config.parallelism;
  if (!options.pipeline_parallel_schedule_csv.empty()) {
    for (const char* name :
         {"pipeline_parallel_layers_per_stage", "pipeline_parallel_stages_per_rank",
          "round_virtual_stages_to_pp_multiple"}) {
      const std::string key = std::string("parallelism.") + name;
      if (!is_set(config, key)) continue;
      refuse_both(config, key, "parallelism.pipeline_parallel_schedule_csv",
                  "the file settles the schedule and the number of stages");
    }
  }
  const std::string& where = config.origins.at("parallelism.pipeline_parallel_schedule");
  if (to_lower(options.pipeline_parallel_schedule) == "auto") {
    throw Error(ErrorKind::kUsage,
                {.what = "parallelism.pipeline_parallel_schedule = \"auto\" is not built yet",
                 .where = where,
                 .remedy = "write the name of a schedule, such as \"1F1B\""});
  }
  try {
    find_schedule(options.pipeline_parallel_schedule);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage,
                {.what = "parallelism.pipeline_parallel_schedule: " + error.fact(),
                 .where = where,
                 .remedy = error.remedy()});
  }
}

void check_split(const RunConfig& config) {
  const ParallelismOptions& options = config.parallelism;
  std::vector<std::string> given;
  const auto add = [&](bool is_given, const char* name) {
    if (is_given) given.push_back(std::string("parallelism.") + name);
  };
  add(!options.pipeline_parallel_split_points.empty(), "pipeline_parallel_split_points");
  add(!options.pipeline_parallel_cuts.empty(), "pipeline_parallel_cuts");
  add(!options.module_fqns_per_model_part.empty(), "module_fqns_per_model_part");
  // torchtitan takes the points and does not look at the number of layers.
  const bool points_win = !options.pipeline_parallel_split_points.empty() &&
                          options.partition_convention.starts_with("torchtitan");
  add(options.pipeline_parallel_layers_per_stage > 0 && !points_win,
      "pipeline_parallel_layers_per_stage");
  if (given.size() > 1) refuse_both(config, given[0], given[1], "keep one of them");
}

void check_stage_to_rank(const RunConfig& config) {
  const ParallelismOptions& options = config.parallelism;
  const std::string& where = config.origins.at("parallelism.stage_to_rank");
  if (options.stage_to_rank_name.empty() && options.stage_to_rank.empty()) {
    throw Error(ErrorKind::kUsage, {.what = "parallelism.stage_to_rank is an empty list",
                                    .where = where,
                                    .remedy = "write \"auto\", or the rank of every stage"});
  }
  for (const int rank : options.stage_to_rank) {
    if (rank < options.pipeline_parallel_degree) continue;
    throw Error(
        ErrorKind::kUsage,
        {.what = "parallelism.stage_to_rank names rank " + std::to_string(rank) +
                 ", but parallelism.pipeline_parallel_degree = " +
                 std::to_string(options.pipeline_parallel_degree),
         .where = where,
         .remedy = "ranks are 0 to " + std::to_string(options.pipeline_parallel_degree - 1)});
  }
}

}  // namespace

void check_built(const RunConfig& config) {
  for (const Key& key : key_table()) {
    const std::string value = to_toml(key.get(config));
    if (key.built.empty() ||
        std::find(key.built.begin(), key.built.end(), value) != key.built.end()) {
      continue;
    }
    throw Error(ErrorKind::kUsage, {.what = key.full_name() + " = " + value + " is not built yet",
                                    .where = config.origins.at(key.full_name()),
                                    .remedy = "write " + join(key.built, " or ")});
  }
}

void check_together(const RunConfig& config) {
  if (!config.model.path.empty() && !config.model.config.empty()) {
    refuse_both(config, "model.path", "model.config",
                "model.path for given weights, model.config to initialise them");
  }
  if (config.optimizer.betas.size() != 2) {
    throw Error(ErrorKind::kUsage, {.what = "optimizer.betas: expected two numbers, found " +
                                            std::to_string(config.optimizer.betas.size()),
                                    .where = config.origins.at("optimizer.betas"),
                                    .remedy = "for example optimizer.betas = [0.9, 0.95]"});
  }
  check_batch(config);
  check_schedule(config);
  check_split(config);
  check_stage_to_rank(config);
}

}  // namespace sluice::detail
