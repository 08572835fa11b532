// Writes run.json (docs/report.md), and at the end the report and TensorBoard's event file. If a
// file cannot be written, warns once and stops writing. Use it from one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command/resume.h"
#include "config/run_config.h"
#include "report/flight_record.h"
#include "report/metrics.h"
#include "report/run_report.h"
#include "report/step_as_run.h"
#include "sluice/data.h"
#include "sluice/parts/group.h"
#include "sluice/plan.h"

namespace sluice {

// The last step that ran, per rank. Empty for unknown ranks.
struct LastStep {
  std::int64_t step = 0;
  std::vector<std::vector<RanInstruction>> ranks;
};

// Collective over all ranks.
LastStep gather_last_step(const Group& world, const FlightRecord& own);

enum class Ending { kFinished, kStopped, kFailed };  // kStopped: by a signal

struct RunEnd {
  Ending ending = Ending::kFinished;
  std::int64_t step = 0;
  std::string weights;  // path, or "" if not saved
  std::string error;
  bool refused = false;  // the error message is enough: it is about weights, data or numbers
  LastStep last;
};

class RunStory {
 public:
  // All arguments must outlive this object.
  RunStory(const RunConfig& config, const Plan& plan, const TokenData& data,
           const ResumePoint& resume)
      : config_(config), plan_(plan), data_(data), resume_(resume) {}

  // Call this when all ranks are ready for the first step. Keeps the records of an earlier process
  // of this run. `threads_per_rank` counts operator threads.
  void begin(int threads_per_rank);
  // Writes run.json for the first time, so a run that is refused before its first step leaves no
  // file.
  void first_step_done();
  void step(const StepMetrics& metrics);
  // A checkpoint of this step has started.
  void saves(std::int64_t step);
  // Stops writing, because the folder was deleted.
  void give_up() { given_up_ = true; }
  // Records the end in run.json and writes the files of metrics.report and
  // metrics.enable_tensorboard. Does nothing if the run never started or was refused. Returns lines
  // that report these files.
  std::string end(const RunEnd& of);

 private:
  void keep_earlier();
  // Returns false after a warning if it cannot write. Nothing is written after that.
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
