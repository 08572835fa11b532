#include "job/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <numbers>

#include "base/text.h"
#include "job/local_ranks.h"
#include "job/model_options.h"
#include "ops/bfloat16_speed.h"
#include "run/replicas.h"
#include "sluice/parts/log.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kNoteInterval{20};
constexpr double kTellingShare = 0.01;  // of the first step, to estimate the rest from

std::string nats_and_bits(double nats) {
  return fixed(nats, 4) + " nats, " + fixed(nats / std::numbers::ln2, 4) + " bits";
}

// All ranks begin and end a step together, which they learn one after another: it takes as long as
// for the rank that says most.
double seconds_of(const std::vector<RankStats>& stats) {
  double seconds = 0;
  for (const RankStats& rank : stats) seconds = std::max(seconds, rank.times.total);
  return seconds;
}

// What a rank says less is waiting for the others.
StepTimes within(double step_seconds, StepTimes times) {
  times.reduction += step_seconds - times.total;
  times.total = step_seconds;
  return times;
}

}  // namespace

std::string first_step_note(double share, double seconds) {
  std::string text =
      "note: " + fixed(100 * share, 1) + "% of the first step after " + duration_text(seconds);
  if (share >= kTellingShare) text += ", " + duration_text(seconds / share - seconds) + " to go";
  return text;
}

RunLog::RunLog(const RunConfig& config, const Plan& plan, const TokenData& data,
               const ResumePoint& resume)
    : config_(config),
      plan_(plan),
      data_(data),
      color_(use_color(STDOUT_FILENO)),
      width_(is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 0),
      resume_(resume) {}

void RunLog::already_finished() const {
  print("the run is finished: " + resume_.checkpoint->path() + " has step " +
        std::to_string(resume_.done.steps) +
        ", training.steps = " + std::to_string(config_.training.steps) + "\n");
}

void RunLog::begin() {
  unigram_entropy_ = data_.unigram_entropy();
  const GridOptions grid = {color_, terminal_width(STDOUT_FILENO)};
  print(show_config_changes(config_) + "all values: sluice config show " + config_.file + "\n\n" +
        describe_plan(plan_, grid) + "kernels: " + kernels_text(config_, plan_.model) + "\n" +
        data_text() + resume_text() + "\n");
  for (const std::string& warning : plan_.warnings) log_warning(warning);
  for (const std::string& warning : data_.warnings()) log_warning(warning);
  warn_of_slow_bfloat16();
  began_ = std::chrono::steady_clock::now();
  next_note_ = began_ + kNoteInterval;
}

// What is asked for is done all the same.
void RunLog::warn_of_slow_bfloat16() const {
  if (config_.training.mixed_precision != MixedPrecision::kBfloat16) return;
  const double time = ops::bfloat16_time();
  constexpr double kSlower = 1.1;  // beyond what a measurement of 30 ms is off by
  if (time <= kSlower) return;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", time);
  log_warning(std::string("on this processor a product in bfloat16 takes ") + text.data() +
              " times as long as in float32; training.mixed_precision = \"none\" is faster, and "
              "takes more memory");
}

// Stdout breaks with a closed pipe or terminal, or a full disk.
void RunLog::print(const std::string& text) const {
  errno = 0;
  if (std::cout << text << std::flush) return;
  const int reason = errno;
  log_warning("cannot write to stdout" +
              (reason != 0 ? std::string(": ") + std::strerror(reason) : "") +
              "; the run goes on without it, its steps are in " +
              MetricsFile::path_in(config_.metrics.folder));
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
  std::cout.clear();
}

std::string RunLog::data_text() const {
  std::string text = "data: " + with_commas(data_.num_bytes()) + " bytes, " +
                     with_commas(data_.num_sequences()) + " sequences of at most " +
                     with_commas(config_.training.seq_len) + " tokens an epoch";
  if (unigram_entropy_)
    text += "\n  unigram entropy " + nats_and_bits(*unigram_entropy_) + " a byte";
  return text + "\n";
}

std::string RunLog::resume_text() const {
  if (!resume_.checkpoint) return {};
  return "goes on from " + resume_.checkpoint->path() + ": step " +
         with_commas(resume_.done.steps + 1) + " of " + with_commas(config_.training.steps) +
         ", after " + counted(resume_.done.position.sequence, "sequence") + "\n";
}

void RunLog::instruction_done(int index) {
  if (stepped_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_note_) return;
  next_note_ = now + kNoteInterval;
  const double share = (index + 1.0) / static_cast<double>(plan_.program.ranks.at(kSpeaker).size());
  const double seconds = std::chrono::duration<double>(now - began_).count();
  print(first_step_note(share, seconds) + "\n");
}

void RunLog::skip_step(double seconds) {
  stepped_ = true;
  step_times_.add(seconds);
  time_left_.add_step(seconds);
}

void RunLog::step(std::int64_t step, double lr, const StepResult& result,
                  const std::vector<RankStats>& stats, std::optional<double> validation_loss) {
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
  metrics.validation_loss = validation_loss;
  if (config_.metrics.parameter_norms) metrics.parameter_norms = result.parameter_norms;
  metrics.tokens_are_bytes = unigram_entropy_.has_value();
  metrics.seconds_left = time_left_.after(step, metrics.num_steps);

  record(metrics);
  print(to_line(metrics, color_, width_) + "\n");
  last_ = std::move(metrics);
}

void RunLog::record(const StepMetrics& metrics) {
  if (metrics_error_) return;
  try {
    metrics_file().append(metrics);
  } catch (const Error& error) {
    give_up_metrics(error, "; the run goes on without metrics");
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
    give_up_metrics(error, "; the run goes on without metrics");
  }
}

void RunLog::give_up_metrics(const Error& error, const std::string& consequence) {
  metrics_error_ = error;
  log_warning(error.what() + consequence);
}

void RunLog::unsplit_stages(const std::vector<int>& stages) const {
  if (stages.empty()) return;
  std::vector<std::string> names;
  for (const int stage : stages) names.push_back(std::to_string(stage));
  const Simulation simulation = simulate(
      plan_.program, charge_unsplit_stages(plan_.costs, plan_.program.num_stages(), stages));
  print("note: the backward of stage " + join(names, ", ") +
        " does not split: all its gradients are computed at I. " + "With that: " +
        (plan_.time_unit.empty()  ? fixed(simulation.makespan, 0) + " units of time"
         : plan_.time_unit == "s" ? fixed(1000 * simulation.makespan, 1) + " ms"
                                  : fixed(simulation.makespan, 3) + " " + plan_.time_unit) +
        ", bubble " + fixed(100 * simulation.bubble_fraction, 1) + "%\n");
}

void RunLog::end(Ending ending, std::int64_t step, const std::string& weights) {
  try {
    if (file_ && !metrics_error_) file_->require_in_place();
  } catch (const Error& error) {
    give_up_metrics(error, "");
    file_.reset();
  }
  std::string text = memory_text() + step_text();
  if (ending != Ending::kFinished) {
    text += ending == Ending::kStopped ? "stopped by a signal" : "ended by an error";
    text += " after step " + std::to_string(step) + " of " +
            std::to_string(config_.training.steps) + "\n";
  }
  // A step that was not logged may be the last before an error.
  if (last_.step == step) {
    text += "loss: " +
            (unigram_entropy_ ? nats_and_bits(last_.loss) + " a byte; unigram entropy " +
                                    nats_and_bits(*unigram_entropy_)
                              : fixed(last_.loss, 4) + " nats a token") +
            "\n";
  }
  text += "weights: " + weights + "\n";
  if (file_) text += "metrics: " + file_->path() + "\n";
  print(text);
}

// The plan's prediction beside the largest peak that was measured.
std::string RunLog::memory_text() const {
  TextTable table({{"rank", Align::kRight},
                   {"predicted", Align::kRight},
                   {"measured", Align::kRight},
                   {"measured / predicted", Align::kRight}});
  for (std::size_t rank = 0; rank < peaks_.size(); ++rank) {
    const int place = place_of(plan_.program.mesh, static_cast<int>(rank));
    const std::int64_t predicted = plan_.ranks[place].memory.total_bytes(), measured = peaks_[rank];
    table.add_row({std::to_string(rank), human_bytes(predicted), human_bytes(measured),
                   fixed(static_cast<double>(measured) / static_cast<double>(predicted), 2)});
  }
  return "\npeak memory, bytes of tensors\n" + table.to_string("  ");
}

// What a plan of measured times expected of a step, beside what came.
std::string RunLog::step_text() const {
  const std::optional<double> measured = step_times_.median();
  if (plan_.time_unit != "s" || !measured) return {};
  const double predicted = plan_.simulation.makespan;
  std::string text = "step time: " + fixed(1000 * predicted, 1) + " ms predicted, " +
                     fixed(1000 * *measured, 1) + " ms measured (median of " +
                     counted(step_times_.num_counted(), "step") + "), measured / predicted " +
                     fixed(*measured / predicted, 2);
  if (!plan_.candidates.empty()) text += "; " + plan_.schedule.name + " was chosen for it";
  return text + "\n";
}

}  // namespace sluice
