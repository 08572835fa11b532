// Writes run.json (docs/report.md), and at the end the report and TensorBoard's events. If a file
// cannot be written, warns once and stops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command/resume.h"
#include "config/run_config.h"
#include "plan/flight_record.h"
#include "report/metrics.h"
#include "report/run_report.h"
#include "report/step_as_run.h"
#include "sluice/data.h"
#include "sluice/parts/group.h"
#include "sluice/plan.h"

namespace sluice {

struct LastStep {
  std::int64_t step = 0;
  std::vector<std::vector<RecordedInstruction>> ranks;
};

// Collective over all ranks.
LastStep gather_last_step(const Group& world, const FlightRecord& own);

enum class Ending { kFinished, kStopped, kFailed };

struct RunEnd {
  Ending ending = Ending::kFinished;
  std::int64_t step = 0;
  std::string weights;
  std::string error;
  bool refused = false;  // the user needs only the error message
  LastStep last;
};

class RunStory {
 public:
  RunStory(const RunConfig& config, const Plan& plan, const TokenData& data,
           const ResumePoint& resume)
      : config_(config), plan_(plan), data_(data), resume_(resume) {}

  void begin(int threads_per_rank);
  void first_step_done();
  void step(const StepMetrics& metrics);
  void saves(std::int64_t step);
  // Stops all writing. Call this if the metrics folder was deleted.
  void give_up() { given_up_ = true; }
  // Completes run.json and writes the files of metrics.report and metrics.enable_tensorboard. Does
  // nothing for runs that never started or were refused.
  std::string end(const RunEnd& of);

 private:
  void keep_earlier();
  bool write(const std::string& path, const std::string& text);
  bool write_facts();
  std::string write_events();

  const RunConfig& config_;
  const Plan& plan_;
  const TokenData& data_;
  const ResumePoint& resume_;
  RunRecord record_;
  bool begun_ = false, stepped_ = false, given_up_ = false;
};

}  // namespace sluice
