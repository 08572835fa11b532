// Prints a run's progress and writes metrics.jsonl. Warns and stops if an output cannot be written.
// Only rank 0's thread uses the log between begin() and end().
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command/resume.h"
#include "command/run_story.h"
#include "config/run_config.h"
#include "report/metrics_file.h"
#include "report/pace_watch.h"
#include "report/step_pace.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"
#include "sluice/plan.h"
#include "train/pipeline_control.h"

namespace sluice {

struct Validated {
  std::optional<double> loss;
  std::vector<std::pair<std::string, std::string>> continuations;
};

class RunLog {
 public:
  // Drops metrics of steps after the step from which the run resumes.
  RunLog(const RunConfig& config, const Plan& plan, const TokenData& data,
         const ResumePoint& resume);

  void already_finished() const;

  void begin(const std::string& auto_text);
  // Call after every instruction of rank 0.
  void instruction_done(int index);
  void step(std::int64_t step, double lr, const StepResult& result,
            const std::vector<RankStats>& stats, Validated validated);
  // Reports stages that did not split their backward into input and weight gradients, and what is
  // predicted for them.
  void unsplit_stages(const std::vector<int>& stages) const;
  // Call for a step that is not logged. Its time still counts for remaining time and pace.
  void skip_step(double seconds);
  void straggles(int rank);
  bool has_logged() const { return last_.step > 0; }
  std::int64_t last_logged() const { return last_.step; }
  void steps_begin(int threads_per_rank) { story_.begin(threads_per_rank); }
  // Call before a checkpoint, so that its metrics are on disk first.
  void sync_metrics();
  void saves(std::int64_t step);
  // Prints predicted and measured memory, the final loss, and the paths of weights and report.
  void end(const RunEnd& of);
  const std::optional<Error>& metrics_error() const { return metrics_error_; }

 private:
  void record(const StepMetrics& metrics);
  MetricsFile& metrics_file();
  void give_up_metrics(const Error& error, const std::string& consequence);
  void print(const std::string& text) const;
  std::string data_text() const;
  bool has_tokens() const;
  std::string resume_text() const;
  void warn_of_slow_bfloat16() const;

  const RunConfig& config_;
  const Plan& plan_;
  const TokenData& data_;
  std::optional<double> unigram_entropy_;  // nats per byte
  bool color_;
  int width_;  // columns; 0: no terminal
  std::optional<MetricsFile> file_;
  std::optional<Error> metrics_error_;
  const ResumePoint& resume_;
  RunStory story_;
  TimeLeft time_left_;
  StepTimesSeen step_times_;
  std::optional<PaceWatch> pace_;  // only if the plan predicts seconds
  bool stepped_ = false;
  std::chrono::steady_clock::time_point began_, next_note_;
  StepMetrics last_;
  std::vector<std::int64_t> peaks_;  // bytes per rank
};

}  // namespace sluice
