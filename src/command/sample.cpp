#include <filesystem>
#include <map>
#include <utility>

#include "base/content_hash.h"
#include "base/format.h"
#include "base/hub_id.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/directory_weights.h"
#include "checkpoint/read_manifest.h"
#include "command/evaluation.h"
#include "command/fingerprints.h"
#include "command/inputs.h"
#include "command/job.h"
#include "command/processes.h"
#include "command/prompts.h"
#include "config/model_kinds.h"
#include "config/option_keys.h"
#include "engine/rank_errors.h"
#include "engine/rank_threads.h"
#include "kind/adapter_files.h"
#include "plan/partition/evaluation_partition.h"
#include "report/run_texts.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

namespace sluice {
namespace {

// If `path` is a folder of checkpoints, returns the last one.
std::string model_in(const std::string& path) {
  std::error_code unseen;
  if (std::filesystem::exists(path + "/config.json", unseen) || is_adapter_directory(path))
    return path;
  for (const std::string& folder : {path, path + "/checkpoint"}) {
    if (std::string last = last_checkpoint_in(folder); !last.empty()) return last;
  }
  return path;
}

void require_model(const std::string& path) {
  std::error_code unseen;
  if (std::filesystem::exists(path, unseen)) return;
  const std::string download = download_advice(path);
  throw Error(
      ErrorKind::kInput,
      {.what = "no such file or folder",
       .where = path,
       .remedy = download.empty()
                     ? "name a Hugging Face model folder, a checkpoint, the folder of a run "
                       "or an exported graph (.pt2)"
                     : download});
}

// A run on bytes saves no tokenizer, but its manifest has data.tokenizer = "bytes".
void choose_tokenizer(RunConfig& config) {
  if (config.data.tokenizer != "auto" || !was_committed(config.model.path)) return;
  const auto& settings = read_manifest(config.model.path).settings;
  const auto trained_with = settings.find("data.tokenizer");
  if (trained_with != settings.end() && trained_with->second == "\"bytes\"")
    config.data.tokenizer = "bytes";
}

void choose_model(RunConfig& config) {
  const bool is_one_file = !detail::kind_of(config).key().empty();
  require_model(detail::path_of_model(config));
  if (!is_one_file) config.model.path = model_in(config.model.path);
  choose_tokenizer(config);
  if (is_one_file) return;
  config.lora = {};
  config.training.loss_chunks = LossChunks::kOff;
  if (!is_adapter_directory(config.model.path)) return;
  config.model.adapter = config.model.path;
  config.model.path = base_of_adapter(config.model.adapter);
  std::error_code unseen;
  if (std::filesystem::exists(config.model.path, unseen)) return;
  const std::string download = download_advice(config.model.path);
  throw Error(
      ErrorKind::kInput,
      {.what = config.model.path.empty()
                   ? "the adapter names no base model"
                   : formatted("the adapter's base model, '{}', does not exist", config.model.path),
       .where = config.model.adapter,
       .remedy = (download.empty() ? "" : download + "; ") +
                 "merge it: sluice checkpoint export PATH OUT --merge --base DIR"});
}

std::map<std::string, std::string> identity_to_sample(const RunConfig& config, const Plan& plan,
                                                      const EvaluatedWeights& weights,
                                                      const std::string& prompt, int threads) {
  RunFingerprints made_of;
  made_of.of["model"] = model_fingerprint(plan.model, weights.opened);
  made_of.of["prompt"] = {prompt.size(), content_hash(prompt)};
  return identity_of(config, plan, made_of, threads);
}

Continuation sample_here(const RunConfig& config, const Plan& plan, const Prompt& prompt,
                         const std::string& text, ProcessJob& processes) {
  const LocalRanks ranks = ranks_of(processes, plan.program.mesh.num_ranks());
  const EvaluatedWeights weights = weights_to_evaluate(
      config, plan.model, was_committed(config.model.path) ? config.model.path : "");
  if (ranks.has_rank_zero()) {
    if (!weights.opened.warning.empty()) log_warning(weights.opened.warning);
    for (const std::string& warning : prompt.warnings()) log_warning(detail::with_keys(warning));
  }
  require_evaluation(plan);
  require_memory_to_evaluate(plan, ranks);
  if (ranks.has_rank_zero() && !ranks.why_device.empty()) log_info("device: " + ranks.why_device);
  const int threads = ranks.threads_per_rank(config.training.threads_per_rank);
  const auto identity = identity_to_sample(config, plan, weights, text, threads);

  PerRank<Continuation> continuations(ranks);
  run_ranks(ranks.connect(), threads, nullptr, [&](Transport& transport) {
    std::string doing = "comparing the processes";
    try {
      const Model model = run_model(config, plan.model, weights.adapter);
      require_same_run(identity, transport.world());
      doing = "making the modules";
      Pipeline pipeline(model, plan, transport, evaluation_options(config, weights));
      doing = "loading the weights";
      load_weights_to_evaluate(weights, plan.model, pipeline);
      doing = "continuing the prompt";
      continuations.at(transport.rank()) = prompt.go_on(pipeline);
    } catch (...) {
      rethrow_with_place(formatted("{}, {}", place_of_rank(plan, transport.rank()), doing),
                         kOutOfMemoryRemedy);
    }
  });
  return agreed(continuations, "the continuation");
}

}  // namespace

std::string to_json(const Continuation& continuation) {
  return Json{{"prompt", continuation.prompt},
              {"text", continuation.text},
              {"prompt_tokens", continuation.prompt_tokens},
              {"tokens", continuation.tokens},
              {"ended", continuation.ended}}
      .dump();
}

std::optional<Continuation> sample(RunConfig config, const std::string& text,
                                   const SampleOptions& options) {
  try {
    choose_model(config);
    const Prompt prompt(config, model_of_config(config), text, options);
    config.training.seq_len = prompt.length();
    const Plan plan = plan_of_config(config);
    ProcessJob processes(read_launch_environment(),
                         job_options(config, plan.program.mesh.num_ranks()));
    std::optional<Continuation> result;
    run_with_shared_errors(processes, [&] {
      try {
        result = sample_here(config, plan, prompt, text, processes);
      } catch (const Error& error) {
        throw detail::with_keys(error);
      }
    });
    processes.finish();
    if (processes.environment().layout.process != 0) result.reset();
    return result;
  } catch (const Error& error) {
    throw detail::with_keys(error);
  }
}

}  // namespace sluice
