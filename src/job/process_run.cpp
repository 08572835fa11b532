#include "job/process_run.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>
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
#include "job/hang_watch.h"
#include "job/run_outputs.h"
#include "job/run_rank.h"
#include "launch/line_table.h"
#include "run/rank_threads.h"
#include "run/replicas.h"
#include "sluice/parts/log.h"
#include "sluice/parts/told_elsewhere.h"

namespace sluice {
namespace {

// What the user needs to see of a run that failed; where there are others, the error too.
void tell_failed(ProcessRun& run, const Error& error, const std::optional<Failure>& failure) {
  // Of data and of numbers the error says it all.
  if (error.kind() != ErrorKind::kInput && error.kind() != ErrorKind::kNotFinite) {
    const std::string records = failure ? run.flight.write_failure(*failure) : "";
    if (failure && run.ranks.tells()) {
      std::cerr << run.post_mortem.text(run.plan.program, *failure,
                                        {use_color(STDERR_FILENO), terminal_width(STDERR_FILENO)});
      if (!records.empty()) {
        std::cerr << "\nflight records: " << records << " (`sluice debug flight " << records
                  << "` compares the ranks)\n";
      }
    }
  }
  if (run.ranks.has_others && run.ranks.tells())
    std::cerr << "sluice: error: " << error.what() << "\n";
}

// What is worth keeping of a run that failed, and what its user needs to see besides the error.
// Others may be busy for long before they can help to keep it: the error is told first where there
// are others; has_told: it was, before all ranks had ended.
void close_failed(ProcessRun& run, const Error& error, const std::optional<Failure>& failure,
                  bool has_told) {
  if (run.ranks.has_others && !has_told) tell_failed(run, error, failure);
  // Without all ranks there are not all weights.
  if (error.kind() != ErrorKind::kPeer) {
    if (run.log && run.log->has_logged()) run.log->sync_metrics();
    const auto last = save_last_weights(
        [&run](std::int64_t step) { return checkpoint_target(run, step); }, run.interrupted,
        run.ranks, run.ranks.threads_per_rank(run.config.training.threads_per_rank));
    if (last && run.log) run.log->end(Ending::kFailed, last->step, last->path);
  }
  run.stop.run_finished();
  if (!run.ranks.has_others) tell_failed(run, error, failure);
}

HangLimits hang_limits(const CommOptions& comm) {
  const auto duration = [](double seconds) {
    return std::chrono::duration_cast<HangLimits::Duration>(std::chrono::duration<double>(seconds));
  };
  HangLimits limits;
  limits.named = duration(comm.heartbeat_seconds);
  limits.ended = duration(comm.train_timeout_seconds);
  limits.ended_unknown = duration(std::max(comm.init_timeout_seconds, comm.train_timeout_seconds));
  return limits;
}

// Of a rank that hangs: every wait ends, of all ranks. A launcher may end this process as soon as
// the others have ended, so that what it has to tell is told at once.
void end_hung(ProcessRun& run, Transport& endpoint, int rank, const Error& error, bool& has_told) {
  const FlightRecorder& recorder = run.flight.recorder(rank);
  run.post_mortem.add(rank, recorder.running().value_or(FlightRecorder::Running()).index,
                      recorder.text());
  endpoint.abort({rank, error.kind(), error.what()});
  if (!run.ranks.has_others) return;
  tell_failed(run, run.ranks.cause(error), endpoint.failure());
  has_told = true;
}

// A thread that hangs cannot be ended, and what it uses has to stay: the process ends as it is.
[[noreturn]] void leave_hung(ProcessRun& run, Transport& endpoint) {
  const Failure first = endpoint.failure().value_or(Failure());
  const Error cause = run.ranks.cause(Error(first.kind, {.what = first.message}));
  if (!run.ranks.has_others) {
    tell_failed(run, cause, first);
    std::cerr << "sluice: error: " << cause.what() << "\n";
  }
  std::_Exit(cause.exit_code());
}

HangWatchOptions hang_watch_options(ProcessRun& run, Transport& endpoint, bool& has_told) {
  HangWatchOptions options;
  options.limits = hang_limits(run.config.comm);
  options.ends_run = run.ranks.num_ranks > 1;
  options.waits = [&endpoint] { return endpoint.waits(); };
  options.place = [&run](int rank) { return place_of_rank(run.plan, rank); };
  options.warn = [&run, &endpoint](int rank, const std::string& what, const std::string& remedy) {
    if (run.ranks.report_hung) return run.ranks.report_hung(rank, what, remedy);
    log_warning(hung_text(what, endpoint.waits(), remedy));
  };
  options.end = [&run, &endpoint, &has_told](int rank, const Error& error) {
    end_hung(run, endpoint, rank, error, has_told);
  };
  options.leave = [&run, &endpoint] { leave_hung(run, endpoint); };
  return options;
}

// Before anything is made for each of its ranks.
Plan fitting(Plan plan, int ranks_on_machine) {
  require_memory(plan, machine_memory_bytes(), ranks_on_machine);
  return plan;
}

// Of the run that finished and was killed before all was tidy.
void tidy_checkpoints(const ProcessRun& run) {
  io::clean_steps(run.config.checkpoint.folder, checkpoint_kind());
  checkpoint_target(run, run.resume.done.steps).after_commit();
}

// What is read by the rules of data.files is that of another key.
Error of_validation(const Error& error) {
  const auto named = [](const std::string& text) {
    return replace_all(text, "data.files", "validation.files");
  };
  return Error(error.kind(), {.what = named(error.fact()),
                              .where = named(error.where()),
                              .remedy = named(error.remedy())});
}

std::optional<TokenData> open_validation(const RunConfig& config, const ModelSpec& spec) {
  if (config.validation.files.empty()) return std::nullopt;
  try {
    return TokenData(validation_data_options(config, spec));
  } catch (const Error& error) {
    throw of_validation(error);
  }
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
      plan(fitting(std::move(run_plan), local_ranks.on_machine)),
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
  if (adapter_tensors) require_base_layers(*adapter_tensors, *weights.directory);
  made_of = fingerprints_of(config, plan.model, weights);
  made_of.is_traced = traced.has_value();
  // Those of other processes come when this has been done (TrainingJob).
  if (ranks.has_speaker()) io::put_back_steps(config.checkpoint.folder);
  resume = find_resume_point(config, made_of);
  if (ranks.has_speaker()) log.emplace(config, plan, data, resume);
  if (ranks.has_speaker() && validation && data.warnings().empty()) {
    for (const std::string& warning : validation->warnings()) log_warning(warning);
  }
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
    folders.take(config);
    if (const std::string text = earlier_run_warning(config, resume); !text.empty())
      log_warning(text);
    log->begin();
  }
  const FlightSignal on_request(flight);
  const auto endpoints = ranks.connect();
  PerRank<std::int64_t> steps(ranks);
  bool has_told = false;  // of a rank that hangs
  try {
    read_ahead();
    const HangWatch watch(flight.recorders(),
                          hang_watch_options(*this, *endpoints.front(), has_told));
    run_ranks(
        endpoints, ranks.threads_per_rank(config.training.threads_per_rank), &ledger,
        [&](Transport& transport) { steps.at(transport.rank()) = run_rank(*this, transport); });
    batches.reset();
  } catch (const Error& error) {
    batches.reset();
    const Error cause = ranks.cause(error);
    close_failed(*this, cause, first_failure(endpoints), has_told);
    if (ranks.has_others) throw ToldElsewhere(cause);  // here, or by another process
    throw Error(cause);
  }
  stop.run_finished();
  return agreed(steps, "the number of steps done");
}

}  // namespace sluice
