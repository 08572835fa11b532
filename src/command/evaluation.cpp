#include "command/evaluation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/directory_weights.h"
#include "checkpoint/read_manifest.h"
#include "command/fingerprints.h"
#include "command/inputs.h"
#include "command/job.h"
#include "command/processes.h"
#include "command/weights.h"
#include "config/batch_sizes.h"
#include "config/machine_memory.h"
#include "config/option_keys.h"
#include "engine/rank_errors.h"
#include "engine/rank_threads.h"
#include "engine/replicas.h"
#include "io/adapter_directory.h"
#include "kind/model_kind.h"
#include "plan/partition/evaluation_partition.h"
#include "report/run_texts.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"
#include "train/pipeline_control.h"

namespace sluice {
namespace {

std::int64_t rows_of(const TokenData& data, std::int64_t batch_size, std::int64_t max_batches) {
  const std::int64_t all = data.num_sequences();
  return max_batches > 0 && max_batches <= all / batch_size ? max_batches * batch_size : all;
}

// The microbatches [from, to) of a replica, and as many without counted labels as give all replicas
// that share experts the same number.
struct ReplicaShare {
  std::int64_t from = 0, to = 0, num_empty = 0;
  std::int64_t number = 0;  // of the first microbatch, counting empty ones
};

ReplicaShare share_of_replica(std::int64_t all, const EvaluationBatches& batches) {
  const std::int64_t degree = batches.expert_degree, groups = batches.num_replicas / degree;
  ReplicaShare share;
  for (std::int64_t group = 0; group <= batches.replica / degree; ++group) {
    const std::int64_t begin = all * group / groups, end = all * (group + 1) / groups;
    const std::int64_t each = (end - begin + degree - 1) / degree;
    if (group < batches.replica / degree) {
      share.number += each * degree;
      continue;
    }
    const std::int64_t member = batches.replica % degree;
    share.from = std::min(begin + member * each, end);
    share.to = std::min(share.from + each, end);
    share.num_empty = each - (share.to - share.from);
    share.number += each * member;
  }
  return share;
}

StepBatch batch_of_replica(const TokenData& data, const Model& model, std::int64_t first,
                           std::int64_t count, const EvaluationBatches& batches,
                           std::int64_t step) {
  const std::int64_t size = batches.microbatch_size, all = (count + size - 1) / size;
  const Model& evaluated = model.evaluation ? *model.evaluation : model;
  const ReplicaShare share = share_of_replica(all, batches);
  StepBatch batch;
  if (share.from < share.to) {
    const std::int64_t num_rows = std::min(share.to * size, count) - share.from * size;
    batch = batches.maker->batch(data.read({first + share.from * size}, num_rows), evaluated, size,
                                 step);
  }
  if (share.num_empty > 0) {
    TokenRows rows = data.read({first}, 1);
    std::fill(rows.labels.begin(), rows.labels.end(), static_cast<std::int32_t>(kIgnoredLabel));
    const StepBatch empty = batches.maker->batch(std::move(rows), evaluated, 1, step);
    for (std::int64_t i = 0; i < share.num_empty; ++i) {
      batch.microbatches.push_back([empty = empty.microbatches] { return empty.at(0); });
      batch.counts.push_back(0);
    }
  }
  batch.step = step;
  batch.first_microbatch = share.number;
  return batch;
}

}  // namespace

EvaluationBatches evaluation_batches(const RunConfig& config, const Plan& plan, int rank) {
  EvaluationBatches batches;
  batches.batch_size = batch_sizes(config).global_batch;
  batches.microbatch_size = config.training.microbatch_size;
  batches.replica = replica_of(plan.program.mesh, rank);
  batches.num_replicas = plan.options.data_parallel.degree;
  batches.expert_degree = plan.options.expert_parallel.degree;
  batches.maker = &maker_of(config.kinds, plan.model);
  return batches;
}

void require_counted_labels(const TokenData& data, const RunConfig& config,
                            std::int64_t max_batches) {
  if (!data.counts_labels()) return;
  const std::int64_t batch_size = batch_sizes(config).global_batch;
  if (max_batches == 0) return data.require_counted_labels(/*steps=*/0, batch_size);
  const std::int64_t num_rows = rows_of(data, batch_size, max_batches);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    if (data.read({row}, 1).counted_labels(0, 1) > 0) return;
  }
  throw Error(
      ErrorKind::kInput,
      {.what = formatted("no label of the first {} is counted", counted(num_rows, "row")),
       .where = "evaluation",
       .remedy = "give files whose first rows have counted labels, or raise validation.steps"});
}

DataLoss evaluate_data(
    const TokenData& data, const Model& model, const EvaluationBatches& batches,
    std::int64_t max_batches, std::int64_t step,
    const std::function<std::vector<MicrobatchLoss>(const StepBatch&)>& losses_of) {
  const std::int64_t batch_size = batches.batch_size;
  const std::int64_t num_rows = rows_of(data, batch_size, max_batches);
  DataLoss total;
  for (std::int64_t first = 0; first < num_rows; first += batch_size) {
    const StepBatch batch =
        batch_of_replica(data, model, first, std::min(batch_size, num_rows - first), batches, step);
    for (const MicrobatchLoss& loss : losses_of(batch)) {
      total.sum += loss.sum;
      total.tokens += loss.count;
    }
  }
  if (total.tokens > 0) return total;
  throw Error(ErrorKind::kInput, {.what = "no label of the data is counted",
                                  .where = "evaluation",
                                  .remedy = "give files with labels other than -100"});
}

std::string last_checkpoint_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (name.starts_with("step-")) names.insert(name);
  }
  return names.empty() ? "" : folder + "/" + *names.rbegin();
}

namespace {

// Compares config.json, because different models can have tensors of the same shapes.
void require_same_config(const std::string& path, const ModelSpec& spec) {
  const std::string file = path + "/config.json";
  if (!std::filesystem::exists(file)) return;
  const std::string text = spec.source->read_config(path);
  const Json theirs = model_of(text), own = model_of(spec.config_text);
  const auto require_same = [&](const std::string& key) {
    if (theirs.at(key) == own.at(key)) return;
    throw Error(ErrorKind::kCheckpoint,
                {.what = formatted("the checkpoint is of another model: its '{}' is {}, not {}",
                                   key, theirs.at(key).dump(), own.at(key).dump()),
                 .where = file,
                 .remedy = "set model.path to the checkpoint itself"});
  };
  require_same("model_type");
  for (const auto& [key, value] : own.members()) require_same(key);
}

OpenedWeights open_checkpoint(const std::string& path, const ModelSpec& spec) {
  std::error_code unknown;
  if (std::filesystem::is_regular_file(path, unknown)) {
    throw Error(ErrorKind::kCheckpoint,
                {.what = "--checkpoint is a file",
                 .where = path,
                 .remedy = "name the directory with the weights, such as step-00000100"});
  }
  if (!std::filesystem::exists(path, unknown)) {
    throw Error(ErrorKind::kCheckpoint, {.what = "there is no such checkpoint",
                                         .where = path,
                                         .remedy = "check the path given to --checkpoint"});
  }
  if (was_committed(path)) Checkpoint(path).verify(resolve_threads_per_rank(0, 1));
  try {
    require_same_config(path, spec);
    return open_weights_in(path, spec);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    const std::string inside = last_checkpoint_in(path);
    throw Error(
        ErrorKind::kCheckpoint,
        {.what = error.fact(),
         .where = error.where(),
         .remedy = inside.empty() ? error.remedy() : formatted("did you mean '{}'?", inside)});
  }
}

}  // namespace

EvaluatedWeights weights_to_evaluate(const RunConfig& config, const ModelSpec& spec,
                                     const std::string& checkpoint) {
  EvaluatedWeights weights;
  weights.adapter = adapter_of_config(config, spec);
  const bool is_stored = weights.adapter && !config.model.adapter.empty();
  if (is_stored) {
    if (was_committed(config.model.adapter))
      Checkpoint(config.model.adapter).verify(resolve_threads_per_rank(0, 1));
    weights.tensors.emplace(config.model.adapter);
  }
  weights.opened = checkpoint.empty() || is_stored ? open_weights(config, spec)
                                                   : open_checkpoint(checkpoint, spec);
  if (is_stored) {
    require_base_of_run(config.model.adapter, spec, weights.opened);
    require_base_layers(*weights.tensors, *weights.opened.directory);
  }
  if (weights.opened.are_given()) return weights;
  const std::string_view key = spec.source->kind().key();
  const bool is_file = !key.empty();
  throw Error(
      ErrorKind::kUsage,
      {.what = is_file ? formatted("the archive of model.{} has no weights to evaluate", key)
                       : "model.config alone has no weights to evaluate",
       .where = config.origins.at(is_file ? formatted("model.{}", key) : "model.config"),
       .remedy = "set model.path, or give --checkpoint a directory with weights"});
}

RunOptions evaluation_options(const RunConfig& config, const EvaluatedWeights& weights) {
  RunOptions options = run_options(config);
  if (weights.opened.in_archive) options.weights = InitialWeights::kDrawn;
  return options;
}

void load_weights_to_evaluate(const EvaluatedWeights& weights, const ModelSpec& model,
                              Pipeline& pipeline) {
  if (!weights.opened.directory) return;
  pipeline.load_weights(weights_of(*weights.opened.directory, model,
                                   weights.tensors ? &*weights.tensors : nullptr, pipeline.seed()));
}

// Evaluation has no gradients and no optimizer. Its activations take at most training's memory.
void require_memory_to_evaluate(Plan plan, const LocalRanks& ranks) {
  for (RankPrediction& rank : plan.ranks)
    rank.memory.gradient_bytes = rank.memory.optimizer_bytes = rank.memory.snapshot_bytes =
        rank.memory.reduction_bytes = 0;
  const std::optional<Error> shortage =
      memory_shortage(plan, ranks.memory_bytes(), ranks.on_machine);
  if (!shortage) return;
  throw Error(ErrorKind::kMemory,
              {.what = "the evaluation needs more memory than there is",
               .where = shortage->where(),
               .remedy = "use a smaller training.microbatch_size or training.seq_len"});
}

namespace {

DataLoss evaluate_on_rank(const RunConfig& config, const Plan& plan,
                          const EvaluatedWeights& weights, const TokenData& data,
                          const std::map<std::string, std::string>& identity, Transport& transport,
                          std::string& doing) {
  const int rank = transport.rank();
  const Model model = run_model(config, plan.model, weights.adapter);
  doing = "comparing the processes";
  require_same_run(identity, transport.world());
  doing = "making the modules";
  Pipeline pipeline(model, plan, transport, evaluation_options(config, weights));
  doing = "loading the weights";
  load_weights_to_evaluate(weights, plan.model, pipeline);
  doing = "evaluating";
  return evaluate_data(data, model, evaluation_batches(config, plan, rank), /*max_batches=*/0,
                       /*step=*/0, [&](const StepBatch& batch) {
                         return PipelineControl(pipeline).evaluate(batch);
                       });
}

std::string counted_by(const ModelSpec& model) {
  const RowNeeds needs = model.source->row_needs();
  if (needs.tokens && (needs.counts_by_model || needs.count == CountOf::kLabels)) return "tokens";
  return needs.counts_by_model ? "labels" : "rows";
}

Evaluation evaluate_here(const RunConfig& config, const Plan& plan, const std::string& checkpoint,
                         ProcessJob& processes) {
  const LocalRanks ranks = ranks_of(processes, plan.program.mesh.num_ranks());
  const TokenData data = open_data(config, evaluation_data_options(config, plan.model));
  if (ranks.has_rank_zero()) {
    for (const std::string& warning : data.warnings()) log_warning(detail::with_keys(warning));
  }
  const EvaluatedWeights weights = weights_to_evaluate(config, plan.model, checkpoint);
  if (!weights.opened.warning.empty() && ranks.has_rank_zero()) log_warning(weights.opened.warning);
  require_evaluation(plan);
  require_memory_to_evaluate(plan, ranks);
  if (ranks.has_rank_zero() && !ranks.why_device.empty()) log_info("device: " + ranks.why_device);
  require_counted_labels(data, config, /*max_batches=*/0);

  const std::map<std::string, std::string> identity =
      ranks.has_others
          ? identity_of(config, plan, fingerprints_of(config, plan.model, weights.opened),
                        ranks.threads_per_rank(config.training.threads_per_rank))
          : std::map<std::string, std::string>();
  PerRank<DataLoss> losses(ranks);
  run_ranks(ranks.connect(), ranks.threads_per_rank(config.training.threads_per_rank), nullptr,
            [&](Transport& transport) {
              std::string doing;
              try {
                losses.at(transport.rank()) =
                    evaluate_on_rank(config, plan, weights, data, identity, transport, doing);
              } catch (...) {
                rethrow_with_place(
                    formatted("{}, {}", place_of_rank(plan, transport.rank()), doing),
                    kOutOfMemoryRemedy);
              }
            });
  const DataLoss& loss = agreed(losses, "the loss");
  if (std::isfinite(loss.mean())) return {loss.mean(), loss.tokens, counted_by(plan.model)};
  throw Error(ErrorKind::kNotFinite, {.what = "the loss is not finite",
                                      .where = checkpoint.empty() ? config.model.path : checkpoint,
                                      .remedy = "evaluate weights that are finite"});
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss); }

std::string to_json(const Evaluation& result) {
  return Json{{"loss", result.loss},
              {"tokens", result.tokens},
              {"perplexity", result.perplexity()},
              {"counted", result.counted}}
      .dump();
}

Evaluation evaluate(const RunConfig& config, const Plan& plan, const std::string& checkpoint) {
  const int num_ranks = plan.program.mesh.num_ranks();
  ProcessJob processes(read_launch_environment(), job_options(config, num_ranks));
  Evaluation evaluation;
  run_with_shared_errors(processes, [&] {
    try {
      evaluation = evaluate_here(config, plan, checkpoint, processes);
    } catch (const Error& error) {
      throw detail::with_keys(error);
    }
  });
  processes.finish();
  evaluation.prints_here = processes.environment().layout.process == 0;
  return evaluation;
}

}  // namespace sluice
