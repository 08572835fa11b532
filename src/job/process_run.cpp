#include "job/process_run.h"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/checkpoint_files.h"
#include "config/batch_sizes.h"
#include "config/machine_memory.h"
#include "io/published_directory.h"
#include "job/checkpoint_target.h"
#include "job/earlier_run.h"
#include "job/evaluate_data.h"
#include "job/run_outputs.h"
#include "job/run_rank.h"
#include "run/replicas.h"
#include "sluice/parts/log.h"
#include "sluice/parts/rank_threads.h"
#include "sluice/parts/told_elsewhere.h"

namespace sluice {
namespace {

// What is worth keeping of a run that failed, and what its user needs to see besides the error.
// Others may be busy for long before they can help to keep it: the error is told first where there
// are others.
void close_failed(ProcessRun& run, const Error& error, const std::optional<Failure>& failure) {
  const auto tell = [&] {
    // Of data and of numbers the error says it all.
    if (error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kNotFinite) return;
    const std::string records = failure ? run.flight.write_failure(*failure) : "";
    if (!failure || !run.ranks.tells()) return;
    std::cerr << run.post_mortem.text(run.plan.program, *failure,
                                      {use_color(STDERR_FILENO), terminal_width(STDERR_FILENO)});
    if (!records.empty()) {
      std::cerr << "\nflight records: " << records << " (`sluice debug flight " << records
                << "` compares the ranks)\n";
    }
  };
  if (run.ranks.has_others) {
    tell();
    if (run.ranks.tells()) std::cerr << "sluice: error: " << error.what() << "\n";
  }
  // Without all ranks there are not all weights.
  if (error.kind() != ErrorKind::kPeer) {
    if (run.log && run.log->has_logged()) run.log->sync_metrics();
    const auto last = save_last_weights(
        [&run](std::int64_t step) { return checkpoint_target(run, step); }, run.interrupted,
        run.ranks, run.ranks.threads_per_rank(run.config.training.threads_per_rank));
    if (last && run.log) run.log->end(Ending::kFailed, last->step, last->path);
  }
  run.stop.run_finished();
  if (!run.ranks.has_others) tell();
}

// Of the run that finished and was killed before all was tidy.
void tidy_checkpoints(const ProcessRun& run) {
  io::clean_steps(run.config.checkpoint.folder, checkpoint_kind());
  checkpoint_target(run, run.resume.done.steps).after_commit();
}

std::optional<TokenData> open_validation(const RunConfig& config, const ModelSpec& spec) {
  if (config.validation.files.empty()) return std::nullopt;
  return TokenData(validation_data_options(config, spec));
}

std::optional<AdapterDirectory> open_adapter(const RunConfig& config) {
  if (config.model.adapter.empty()) return std::nullopt;
  return AdapterDirectory(config.model.adapter);
}

// An endpoint knows the first failure of all ranks, once it has heard of it.
std::optional<Failure> first_failure(const std::vector<std::unique_ptr<Transport>>& endpoints) {
  for (const auto& endpoint : endpoints) {
    if (std::optional<Failure> failure = endpoint->failure()) return failure;
  }
  return std::nullopt;
}

}  // namespace

ProcessRun::ProcessRun(const RunConfig& run_config, Plan run_plan, StopSignal& stop_signal,
                       LocalRanks local_ranks, const std::optional<StepRange>& traced)
    : config(run_config),
      plan(std::move(run_plan)),
      adapter(adapter_of_config(config, plan.model)),
      stop(stop_signal),
      ranks(std::move(local_ranks)),
      data(training_data_options(config, plan.model)),
      validation(open_validation(config, plan.model)),
      weights(open_weights(config, plan.model)),
      adapter_tensors(open_adapter(config)),
      ledger(ranks.num_ranks),
      post_mortem(ranks),
      flight(ranks, config.metrics.folder, ranks.name),
      interrupted(ranks) {
  require_model_is_kept(config);
  require_data_is_kept(config);
  require_memory(plan, machine_memory_bytes(), ranks.on_machine);
  if (adapter_tensors) require_base_layers(*adapter_tensors, *weights.directory);
  made_of = fingerprints_of(config, plan.model, weights);
  made_of.is_traced = traced.has_value();
  // Those of other processes come when this has been done (TrainingJob).
  if (ranks.has_speaker()) io::put_back_steps(config.checkpoint.folder);
  resume = find_resume_point(config, made_of);
  if (ranks.has_speaker()) log.emplace(config, plan, data, resume);
  if (!is_finished(config, resume)) require_steps_left(traced);
  if (!log) return;
  if (!weights.warning.empty()) log_warning(weights.warning);
  for (const std::string& warning : resume.warnings) log_warning(warning);
}

void ProcessRun::require_steps_left(const std::optional<StepRange>& traced) {
  if (traced) trace.emplace(*traced, resume.done.steps, config.training.steps, ranks);
  require_free_steps(config, resume);
  data.require_counted_labels(config.training.steps, batch_sizes(config).global_batch, resume.done);
  if (validation) require_counted_labels(*validation, config, config.validation.steps);
  require_outputs(config, plan);
}

BatchRange ProcessRun::rows_of(int rank) const {
  const std::int64_t count = batch_sizes(config).local_batch;
  return {replica_of(plan.program.mesh, rank) * count, count};
}

void ProcessRun::read_ahead() {
  data::StepsToRead steps;
  steps.first = resume.done.steps + 1;
  steps.last = config.training.steps;
  steps.batch_size = batch_sizes(config).global_batch;
  steps.done = resume.done;
  for (const int rank : ranks.here) steps.rows[rank] = rows_of(rank);
  batches.emplace(data, std::move(steps));
}

std::int64_t ProcessRun::train() {
  if (is_finished(config, resume)) {
    if (log) {
      log->already_finished();
      tidy_checkpoints(*this);
    }
    return resume.done.steps;
  }
  if (log) {
    if (const std::string text = earlier_run_warning(config, resume); !text.empty())
      log_warning(text);
    log->begin();
  }
  const FlightSignal on_request(flight);
  const auto endpoints = ranks.connect();
  PerRank<std::int64_t> steps(ranks);
  try {
    read_ahead();
    run_ranks(
        endpoints, ranks.threads_per_rank(config.training.threads_per_rank), &ledger,
        [&](Transport& transport) { steps.at(transport.rank()) = run_rank(*this, transport); });
    batches.reset();
  } catch (const Error& error) {
    batches.reset();
    const Error cause = ranks.cause(error);
    close_failed(*this, cause, first_failure(endpoints));
    if (ranks.has_others) throw ToldElsewhere(cause);  // here, or by another process
    throw Error(cause);
  }
  stop.run_finished();
  return agreed(steps, "the number of steps done");
}

}  // namespace sluice
