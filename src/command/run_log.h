// All that a training run tells its user: settings and plan, then the steps, then the outcome.
//
// Owns: the text on stdout, which fits the terminal, and metrics.jsonl, which it creates with the
// first logged step, or with the first checkpoint of a run that resumes. The run matters more than
// its text: output that cannot be written is given up with a warning, and the run continues. Does
// not own: the numbers. Used by the speaker's thread (processes.h) between begin() and end(), in
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

// The results of validating a step's weights: validation.files, validation.prompts.
struct Validated {
  std::optional<double> loss;
  std::vector<std::pair<std::string, std::string>> continuations;  // prompt, text
};

class RunLog {
 public:
  // resume: the start of the run; metrics up to there are kept.
  RunLog(const RunConfig& config, const Plan& plan, const TokenData& data,
         const ResumePoint& resume);

  // The only text of a run that has nothing left to do.
  void already_finished() const;

  // Settings that are not the default, split, schedule, prediction, data; the plan's warnings.
  void begin(const std::string& auto_text);
  // After every instruction of the speaker. The first step has no line before it, and may take
  // long: says every 20 seconds how far it is.
  void instruction_done(int index);
  void step(std::int64_t step, double lr, const StepResult& result,
            const std::vector<RankStats>& stats, Validated validated);
  // After the first step: which stages did not split their backward, and the prediction with that.
  void unsplit_stages(const std::vector<int>& stages) const;
  // Steps that are not logged count for the time left, and for whether steps take what was
  // expected.
  void skip_step(double seconds);
  // A rank that was found to be a straggler, before the step that it was found at.
  void straggles(int rank);
  bool has_logged() const { return last_.step > 0; }
  std::int64_t last_logged() const { return last_.step; }
  // The ranks are ready for the first step.
  void steps_begin(int threads_per_rank) { story_.begin(threads_per_rank); }
  // Before a checkpoint: no checkpoint is on disk while metrics of its steps are not.
  void sync_metrics();
  void saves(std::int64_t step);  // the same, of a checkpoint of this step
  // Memory predicted and measured, the loss beside what it has to beat, where the weights are; the
  // report. Finds metrics.jsonl gone, if it is. Without weights no more than where the report is.
  void end(const RunEnd& of);
  // The error for which metrics.jsonl was given up, if it was.
  const std::optional<Error>& metrics_error() const { return metrics_error_; }

 private:
  void record(const StepMetrics& metrics);
  MetricsFile& metrics_file();  // made when it is needed first
  void give_up_metrics(const Error& error, const std::string& consequence);
  void print(const std::string& text) const;
  std::string data_text() const;
  bool has_tokens() const;  // the loss is one of tokens
  std::string resume_text() const;
  void warn_of_slow_bfloat16() const;

  const RunConfig& config_;
  const Plan& plan_;
  const TokenData& data_;
  std::optional<double> unigram_entropy_;  // nats a byte; only of text
  bool color_;
  int width_;  // width of the terminal, 0: none
  std::optional<MetricsFile> file_;
  std::optional<Error> metrics_error_;
  const ResumePoint& resume_;
  RunStory story_;
  TimeLeft time_left_;
  StepTimesSeen step_times_;
  std::optional<PaceWatch> pace_;  // where the plan expects seconds
  bool stepped_ = false;
  std::chrono::steady_clock::time_point began_, next_note_;
  StepMetrics last_;
  std::vector<std::int64_t> peaks_;  // bytes per rank, over the logged steps
};

}  // namespace sluice
