// Everything that a training run reports: text on stdout and metrics.jsonl. If output cannot be
// written, it is given up with a warning and the run continues. metrics.jsonl is created with the
// first logged step, or with the first checkpoint of a resumed run. Only rank 0's thread uses the
// log between begin() and end().
// its process only.
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

namespace sluice {

// Results of validation.files and validation.prompts.
struct Validated {
  std::optional<double> loss;
  std::vector<std::pair<std::string, std::string>> continuations;  // prompt, text
};

class RunLog {
 public:
  // Keeps the metrics up to the step where `resume` starts.
  RunLog(const RunConfig& config, const Plan& plan, const TokenData& data,
         const ResumePoint& resume);

  // All that a run without remaining steps prints.
  void already_finished() const;

  // Prints changed settings, split, schedule, prediction, data and the plan's warnings.
  void begin(const std::string& auto_text);
  // Call this after every instruction of rank 0. During a long first step it prints progress every
  // 20 seconds.
  void instruction_done(int index);
  void step(std::int64_t step, double lr, const StepResult& result,
            const std::vector<RankStats>& stats, Validated validated);
  // Call this after the first step. Reports the stages that did not split their backward, and a
  // prediction for this case.
  void unsplit_stages(const std::vector<int>& stages) const;
  // Steps that are not logged still count for the remaining time and for the expected pace.
  void skip_step(double seconds);
  // Call this before step() when a rank is found to be a straggler.
  void straggles(int rank);
  bool has_logged() const { return last_.step > 0; }
  std::int64_t last_logged() const { return last_.step; }
  // Call this when the ranks are ready for the first step.
  void steps_begin(int threads_per_rank) { story_.begin(threads_per_rank); }
  // Call this before a checkpoint, so that metrics reach the disk before the checkpoint of their
  // steps.
  void sync_metrics();
  void saves(std::int64_t step);  // includes sync_metrics()
  // Prints predicted and measured memory, the loss with a baseline, and the paths of weights and
  // report. Without weights it prints only the report's path. Notices if metrics.jsonl was deleted.
  void end(const RunEnd& of);
  // The reason why metrics.jsonl was given up, if it was.
  const std::optional<Error>& metrics_error() const { return metrics_error_; }

 private:
  void record(const StepMetrics& metrics);
  MetricsFile& metrics_file();  // created on first use
  void give_up_metrics(const Error& error, const std::string& consequence);
  void print(const std::string& text) const;
  std::string data_text() const;
  bool has_tokens() const;  // whether the loss is per token
  std::string resume_text() const;
  void warn_of_slow_bfloat16() const;

  const RunConfig& config_;
  const Plan& plan_;
  const TokenData& data_;
  std::optional<double> unigram_entropy_;  // nats per byte, for text only
  bool color_;
  int width_;  // of the terminal; 0: none
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
  std::vector<std::int64_t> peaks_;  // bytes per rank, over the logged steps
};

}  // namespace sluice
