#include "command/failed_run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "config/option_keys.h"
#include "job/line_table.h"
#include "report/run_texts.h"

namespace sluice {
namespace {

bool is_self_explanatory(const Error& error) {
  return error.kind() == ErrorKind::kUsage || error.kind() == ErrorKind::kInput ||
         error.kind() == ErrorKind::kNotFinite;
}

void report_failure(ProcessRun& run, const Error& error, const std::optional<Failure>& failure) {
  if (!is_self_explanatory(error)) {
    const std::string records = failure ? run.flight.write_failure(*failure) : "";
    if (failure && run.ranks.tells()) {
      std::cerr << run.post_mortem.text(run.plan.program, *failure,
                                        {use_color(STDERR_FILENO), terminal_width(STDERR_FILENO)});
      if (!records.empty()) {
        std::cerr << formatted(
            "\nflight records: {} (`sluice debug flight {}` compares the ranks)\n", records,
            records);
      }
    }
  }
  if (run.ranks.has_others && run.ranks.tells())
    std::cerr << "sluice: error: " << error.what() << "\n";
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

// Reports the hang at once, because a launcher may end this process when others have ended.
void end_hung(ProcessRun& run, Transport& endpoint, int rank, const Error& error,
              bool& has_reported) {
  const FlightRecorder& recorder = run.flight.recorder(rank);
  run.post_mortem.add(rank, recorder.running().value_or(RunningAction()).index, recorder.text());
  endpoint.abort({rank, error.kind(), error.what()});
  if (!run.ranks.has_others) return;
  report_failure(run, detail::with_keys(run.ranks.cause(error)), endpoint.failure());
  has_reported = true;
}

// Exits without clean-up, because a hanging thread cannot be ended and still uses its objects.
[[noreturn]] void leave_hung(ProcessRun& run, Transport& endpoint) {
  const Failure first = endpoint.failure().value_or(Failure());
  const Error cause = run.ranks.cause(Error(first.kind, {.what = first.message}));
  if (!run.ranks.has_others) {
    report_failure(run, cause, first);
    std::cerr << "sluice: error: " << cause.what() << "\n";
  }
  std::_Exit(cause.exit_code());
}

LastStep last_step_here(const ProcessRun& run) {
  LastStep last;
  last.ranks.resize(static_cast<std::size_t>(run.ranks.num_ranks));
  for (const auto& [rank, recorder] : run.flight.recorders()) {
    const FlightRecord record = recorder->record();
    last.step = record.step;
    last.ranks.at(static_cast<std::size_t>(rank)) = ran_instructions(record);
  }
  return last;
}

}  // namespace

Error with_predicted_memory(const Plan& plan, const Error& error,
                            const std::optional<Failure>& failure) {
  if (!failure || failure->kind != ErrorKind::kMemory) return error;
  const int row = plan.program.mesh.coordinate(failure->rank, Axis::kPp);
  const std::string predicted =
      formatted(" ({} are predicted for the rank)",
                human_bytes(plan.ranks.at(static_cast<std::size_t>(row)).memory.total_bytes()));
  std::string text = error.what();
  text.insert(std::min(text.find("; "), text.size()), predicted);
  return Error(error.kind(), {.what = text});
}

void close_failed(ProcessRun& run, const Error& error, const std::optional<Failure>& failure,
                  bool has_reported) {
  if (run.ranks.has_others && !has_reported) report_failure(run, error, failure);
  RunEnd end = {
      .ending = Ending::kFailed, .error = error.what(), .refused = is_self_explanatory(error)};
  // With kPeer, a process may be gone together with its weights, so do not save.
  if (error.kind() != ErrorKind::kPeer) {
    if (run.log && run.log->has_logged()) run.log->sync_metrics();
    const auto last = save_last_weights(
        [&run](std::int64_t step) { return run.target(step); }, run.interrupted, run.ranks,
        run.ranks.threads_per_rank(run.config.training.threads_per_rank));
    if (last) end.step = last->step, end.weights = last->path;
  }
  if (run.log) {
    if (end.weights.empty()) end.step = run.log->last_logged();
    end.last = last_step_here(run);
    run.log->end(end);
  }
  run.stop.run_finished();
  if (!run.ranks.has_others) report_failure(run, error, failure);
}

HangWatchOptions hang_watch_options(ProcessRun& run, Transport& endpoint, bool& has_reported) {
  HangWatchOptions options;
  options.limits = hang_limits(run.config.comm);
  options.ends_run = run.ranks.num_ranks > 1;
  options.waits = [&endpoint] { return endpoint.waits(); };
  options.place = [&run](int rank) { return place_of_rank(run.plan, rank); };
  options.warn = [&run, &endpoint](int rank, const std::string& what, const std::string& remedy) {
    if (run.ranks.report_hung) return run.ranks.report_hung(rank, what, remedy);
    log_warning(hung_text(what, endpoint.waits(), remedy));
  };
  options.end = [&run, &endpoint, &has_reported](int rank, const Error& error) {
    end_hung(run, endpoint, rank, error, has_reported);
  };
  options.leave = [&run, &endpoint] { leave_hung(run, endpoint); };
  return options;
}

}  // namespace sluice
