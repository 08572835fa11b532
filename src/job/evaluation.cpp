#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/json.h"
#include "checkpoint/read_manifest.h"
#include "config/machine_memory.h"
#include "io/adapter_directory.h"
#include "job/evaluate_data.h"
#include "job/job_processes.h"
#include "job/job_run_options.h"
#include "job/local_ranks.h"
#include "job/model_config.h"
#include "job/model_options.h"
#include "job/run_base.h"
#include "job/run_inputs.h"
#include "job/run_rank.h"
#include "job/same_run.h"
#include "job/stage_weights.h"
#include "run/out_of_memory.h"
#include "run/rank_threads.h"
#include "sluice/causal_lm.h"
#include "sluice/checkpoint.h"
#include "sluice/job.h"
#include "sluice/parts/log.h"

namespace sluice {
namespace {

// The last checkpoint of a folder that holds several, "" for none.
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

// Weights of the same shapes may be those of another model.
void require_same_config(const std::string& path, const ModelSpec& spec) {
  const std::string file = path + "/config.json";
  if (!std::filesystem::exists(file)) return;
  const Json theirs = model_of(read_model_spec(path).config_text), own = model_of(spec.config_text);
  const auto require_same = [&](const std::string& key) {
    if (theirs.at(key) == own.at(key)) return;
    throw Error(ErrorKind::kCheckpoint,
                {.what = "the checkpoint is of another model: its '" + key + "' is " +
                         theirs.at(key).dump() + ", not " + own.at(key).dump(),
                 .where = file,
                 .remedy = "set model.path to the checkpoint itself"});
  };
  require_same("model_type");  // models of two families differ in many keys: this one says why
  for (const auto& [key, value] : own.members()) require_same(key);
}

OpenedWeights open_checkpoint(const std::string& path, const ModelSpec& spec) {
  std::error_code unknown;
  if (std::filesystem::is_regular_file(path, unknown)) {
    throw Error(ErrorKind::kCheckpoint,
                {.what = "--checkpoint is a file",
                 .where = path,
                 .remedy = "name the directory with the weights, as step-00000100"});
  }
  if (was_committed(path)) Checkpoint(path).verify(resolve_threads_per_rank(0, 1));
  try {
    require_same_config(path, spec);
    return open_weights_in(path, spec);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    const std::string inside = last_checkpoint_in(path);
    throw Error(ErrorKind::kCheckpoint,
                {.what = error.fact(),
                 .where = error.where(),
                 .remedy = inside.empty() ? error.remedy() : "did you mean '" + inside + "'?"});
  }
}

struct EvaluatedWeights {
  OpenedWeights opened;
  std::optional<Adapter> adapter;
  std::optional<AdapterDirectory> tensors;
};

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
  if (weights.opened.directory) return weights;
  throw Error(ErrorKind::kUsage,
              {.what = "model.config alone has no weights to evaluate",
               .where = config.origins.at("model.config"),
               .remedy = "set model.path, or give --checkpoint a directory with weights"});
}

// Gradients and optimizer are not there; what microbatches keep for a backward is more than
// forwards need.
void require_memory_to_evaluate(Plan plan, int ranks_here) {
  for (RankPrediction& rank : plan.ranks)
    rank.memory.gradient_bytes = rank.memory.optimizer_bytes = rank.memory.snapshot_bytes =
        rank.memory.reduction_bytes = 0;
  const std::optional<Error> shortage = memory_shortage(plan, machine_memory_bytes(), ranks_here);
  if (!shortage) return;
  throw Error(ErrorKind::kMemory,
              {.what = "the evaluation needs more memory than there is",
               .where = shortage->where(),
               .remedy = "use a smaller training.microbatch_size or training.seq_len"});
}

DataLoss evaluate_on_rank(const RunConfig& config, const Plan& plan,
                          const EvaluatedWeights& weights, const TokenData& data,
                          const std::map<std::string, std::string>& identity, Transport& transport,
                          std::string& doing) {
  const int rank = transport.rank();
  const Model model = causal_lm(plan.model, layer_options(config, weights.adapter));
  doing = "comparing the processes";
  require_same_run(identity, transport.world());
  doing = "making the modules";
  Pipeline pipeline(model, plan, transport, run_options(config));
  doing = "loading the weights";
  pipeline.load_weights(weights_of(*weights.opened.directory, plan.model,
                                   weights.tensors ? &*weights.tensors : nullptr, pipeline.seed()));
  doing = "evaluating";
  return evaluate_data(data, evaluation_batches(config, plan, rank), /*max_batches=*/0, /*step=*/0,
                       [&](const StepBatch& batch) { return pipeline.evaluate(batch); });
}

Evaluation evaluate_here(const RunConfig& config, const Plan& plan, const std::string& checkpoint,
                         ProcessJob& processes) {
  const LocalRanks ranks = ranks_of(processes, plan.program.mesh.num_ranks());
  const TokenData data(evaluation_data_options(config, plan.model));
  if (ranks.has_speaker()) {
    for (const std::string& warning : data.warnings()) log_warning(warning);
  }
  const EvaluatedWeights weights = weights_to_evaluate(config, plan.model, checkpoint);
  if (!weights.opened.warning.empty() && ranks.has_speaker()) log_warning(weights.opened.warning);
  require_memory_to_evaluate(plan, ranks.on_machine);
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
                rethrow_with_place(place_of_rank(plan, transport.rank()) + ", " + doing,
                                   kOutOfMemoryRemedy);
              }
            });
  const DataLoss& loss = agreed(losses, "the loss");
  if (std::isfinite(loss.mean())) return {loss.mean(), loss.tokens};
  throw Error(ErrorKind::kNotFinite, {.what = "the loss is not finite",
                                      .where = checkpoint.empty() ? config.model.path : checkpoint,
                                      .remedy = "evaluate weights that are finite"});
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss); }

std::string to_json(const Evaluation& result) {
  return Json{{"loss", result.loss}, {"tokens", result.tokens}, {"perplexity", result.perplexity()}}
      .dump();
}

Evaluation evaluate(const RunConfig& config, const Plan& plan, const std::string& checkpoint) {
  const int num_ranks = plan.program.mesh.num_ranks();
  ProcessJob processes(read_launch_environment(), job_options(config, num_ranks));
  Evaluation evaluation;
  told_to_all(processes, [&] { evaluation = evaluate_here(config, plan, checkpoint, processes); });
  processes.finish();
  evaluation.told_here = processes.environment().layout.process == 0;
  return evaluation;
}

}  // namespace sluice
