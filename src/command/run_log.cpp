#include "command/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>

#include "base/format.h"
#include "base/json.h"
#include "base/log.h"
#include "base/print.h"
#include "base/text.h"
#include "command/continue_command.h"
#include "command/inputs.h"
#include "command/machine_state.h"
#include "command/processes.h"
#include "config/epochs.h"
#include "config/layout_free.h"
#include "config/option_keys.h"
#include "kind/model_kind.h"
#include "ops/bfloat16_speed.h"
#include "report/run_texts.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kNoteInterval{20};

// Ranks share a step's start and end but notice the end one after another, so use the longest time.
double seconds_of(const std::vector<RankStats>& stats) {
  double seconds = 0;
  for (const RankStats& rank : stats) seconds = std::max(seconds, rank.times.total);
  return seconds;
}

// Stretches a rank's times to the slowest rank's. The difference counts as waiting in reductions.
RankSeconds within(double step_seconds, StepTimes times) {
  times.reduction += step_seconds - times.total;
  times.total = step_seconds;
  return {times.compute,   times.wait_receive, times.wait_send,
          times.reduction, times.optimizer,    times.other()};
}

}  // namespace

RunLog::RunLog(const RunConfig& config, const Plan& plan, const TokenData& data,
               const ResumePoint& resume)
    : config_(config),
      plan_(plan),
      data_(data),
      color_(use_color(STDOUT_FILENO)),
      width_(is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 0),
      resume_(resume),
      story_(config, plan, data, resume) {
  if (plan.time_unit == "s") pace_.emplace(plan.simulation.makespan);
}

void RunLog::already_finished() const {
  print(formatted(
      "the run is finished: {} has step {}, and training.steps = {}. Raise {} for more steps. To "
      "start afresh, use --checkpoint.resume none or another checkpoint.folder.\n",
      resume_.checkpoint->path(), resume_.done.steps, config_.training.steps,
      config_.training.epochs > 0 ? "training.epochs" : "training.steps"));
}

void RunLog::begin(const std::string& auto_text) {
  unigram_entropy_ = data_.unigram_entropy();
  const GridOptions grid = {color_, terminal_width(STDOUT_FILENO)};
  print(formatted("{}all values: sluice config show {}\n\n{}{}kernels: {}\n{}\n{}{}\n",
                  show_config_changes(config_), config_.file, describe_plan(plan_, grid), auto_text,
                  kernels_text(config_, plan_.model),
                  detail::layout_invariance_text(config_, plan_), data_text(), resume_text()));
  for (const std::string& warning : plan_.warnings) log_warning(warning);
  for (const std::string& warning : data_.warnings()) log_warning(detail::with_keys(warning));
  warn_of_slow_bfloat16();
  began_ = std::chrono::steady_clock::now();
  next_note_ = began_ + kNoteInterval;
}

void RunLog::warn_of_slow_bfloat16() const {
  if (config_.training.mixed_precision != MixedPrecision::kBfloat16) return;
  const double time = ops::bfloat16_time();
  constexpr double kSlower = 1.1;  // more than the error of a 30 ms measurement
  if (time <= kSlower) return;
  log_warning(
      formatted("on this processor a product in bfloat16 takes {} times as long as in float32; "
                "training.mixed_precision = \"none\" is faster, and takes more memory",
                fixed(time, 1)));
}

// If stdout fails (closed pipe, full disk), warns once and stops printing.
void RunLog::print(const std::string& text) const {
  errno = 0;
  sluice::print(text, color_ ? Colors::kKeep : Colors::kReplace);
  if (std::cout << std::flush) return;
  const int reason = errno;
  log_warning(
      formatted("cannot write to stdout{}; the run continues without it and logs its steps in {}",
                reason != 0 ? formatted(": {}", std::strerror(reason)) : "",
                MetricsFile::path_in(config_.metrics.folder)));
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
  std::cout.clear();
}

bool RunLog::has_tokens() const { return plan_.model.source->row_needs().tokens; }

std::string RunLog::data_text() const {
  const std::string bytes = with_commas(data_.num_bytes());
  const std::string rows = with_commas(data_.num_sequences());
  std::string text = has_tokens()
                         ? formatted("data: {} bytes, {} sequences of at most {} tokens an epoch",
                                     bytes, rows, with_commas(config_.training.seq_len))
                         : formatted("data: {} bytes, {} rows an epoch", bytes, rows);
  const std::map<std::string, std::string> choices = data_.choices();
  if (const auto shape = choices.find("rows"); shape != choices.end())
    text += ", rows of " + shape->second;
  text += formatted("\n  {}", steps_text(config_, data_, resume_.done));
  if (unigram_entropy_)
    text += formatted("\n  unigram entropy {} a byte", nats_and_bits(*unigram_entropy_));
  return text + "\n";
}

std::string RunLog::resume_text() const {
  if (!resume_.checkpoint) return {};
  return formatted("resumes from {}: step {} of {}, after {}\n", resume_.checkpoint->path(),
                   with_commas(resume_.done.steps + 1), with_commas(config_.training.steps),
                   counted(resume_.done.position.sequence, "sequence"));
}

void RunLog::instruction_done(int index) {
  if (stepped_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_note_) return;
  next_note_ = now + kNoteInterval;
  const double share =
      (index + 1.0) / static_cast<double>(plan_.program.ranks.at(kRankZero).size());
  const double seconds = std::chrono::duration<double>(now - began_).count();
  print(first_step_note(share, seconds) + "\n");
}

void RunLog::skip_step(double seconds) {
  if (!std::exchange(stepped_, true)) story_.first_step_done();
  step_times_.add(seconds);
  time_left_.add_step(seconds);
  if (!pace_ || !pace_->add(seconds)) return;
  if (const std::optional<std::string> warning = pace_->judge(machine_state())) {
    log_warning(*warning);
    pace_.reset();
  }
}

void RunLog::straggles(int rank) {
  if (pace_) pace_->straggles(rank);
}

void RunLog::step(std::int64_t step, double lr, const StepResult& result,
                  const std::vector<RankStats>& stats, Validated validated) {
  const double seconds = seconds_of(stats);
  skip_step(seconds);
  StepMetrics metrics;
  metrics.step = step;
  metrics.num_steps = config_.training.steps;
  metrics.loss = result.loss;
  metrics.grad_norm = result.grad_norm;
  metrics.lr = lr;
  metrics.tokens = result.count;
  metrics.step_seconds = seconds;
  double compute = 0;
  peaks_.resize(stats.size());
  for (std::size_t rank = 0; rank < stats.size(); ++rank) {
    compute += stats[rank].times.compute;
    metrics.rank_seconds.push_back(within(seconds, stats[rank].times));
    metrics.memory_bytes.push_back(stats[rank].peak_bytes);
    peaks_[rank] = std::max(peaks_[rank], stats[rank].peak_bytes);
  }
  metrics.bubble_fraction = bubble_fraction(compute, static_cast<int>(stats.size()), seconds);
  metrics.validation_loss = validated.loss;
  metrics.continuations = std::move(validated.continuations);
  if (config_.metrics.parameter_norms) metrics.parameter_norms = result.parameter_norms;
  metrics.tokens_are_bytes = unigram_entropy_.has_value();
  metrics.seconds_left = time_left_.after(step, metrics.num_steps);

  record(metrics);
  story_.step(metrics);
  print(to_line(metrics, color_, width_) + "\n");
  for (const auto& [prompt, text] : metrics.continuations)
    print("  " + Json(prompt).dump() + " + " + Json(text).dump() + "\n");
  last_ = std::move(metrics);
}

void RunLog::record(const StepMetrics& metrics) {
  if (metrics_error_) return;
  try {
    metrics_file().append(metrics);
  } catch (const Error& error) {
    give_up_metrics(error, "; the run continues without metrics");
  }
}

MetricsFile& RunLog::metrics_file() {
  if (!file_) file_.emplace(config_.metrics.folder, resume_.done.steps);
  return *file_;
}

void RunLog::sync_metrics() {
  if (metrics_error_ || (!file_ && resume_.done.steps == 0)) return;
  try {
    metrics_file().require_in_place();
    metrics_file().sync();
  } catch (const Error& error) {
    give_up_metrics(error, "; the run continues without metrics");
  }
}

void RunLog::saves(std::int64_t step) {
  sync_metrics();
  story_.saves(step);
}

void RunLog::give_up_metrics(const Error& error, const std::string& consequence) {
  metrics_error_ = error;
  story_.give_up();
  log_warning(error.what() + consequence);
}

void RunLog::unsplit_stages(const std::vector<int>& stages) const {
  if (!stages.empty()) print(unsplit_stages_text(plan_, stages));
}

void RunLog::end(const RunEnd& of) {
  try {
    if (file_ && !metrics_error_) file_->require_in_place();
  } catch (const Error& error) {
    give_up_metrics(error, "");
    file_.reset();
  }
  std::string story_text = story_.end(of);
  if (of.weights.empty()) return print(story_text);
  std::string text = peak_memory_text(plan_, peaks_) + step_time_text(plan_, step_times_);
  if (of.ending != Ending::kFinished) {
    text += formatted("{} after step {} of {}\n",
                      of.ending == Ending::kStopped ? "stopped by a signal" : "ended by an error",
                      of.step, config_.training.steps);
  }
  // The last step before an error may not be logged, so its loss is unknown.
  if (last_.step == of.step) {
    text += unigram_entropy_
                ? formatted("loss: {} a byte; unigram entropy {}\n", nats_and_bits(last_.loss),
                            nats_and_bits(*unigram_entropy_))
                : formatted("loss: {}{}\n", fixed(last_.loss, 4),
                            data_.counts_labels() ? " nats a token" : "");
  }
  text += formatted("weights: {}\n", of.weights);
  if (file_) text += formatted("metrics: {}\n", file_->path());
  if (of.ending == Ending::kStopped) {
    story_text +=
        formatted("to continue: {}\n", continue_command(config_, read_launch_environment()));
  }
  print(text + story_text);
}

}  // namespace sluice
