// The story of a run for later readers: run.json (docs/report.md), and at its end the report and
// the event file of TensorBoard.
//
// Owns: these files. A file that cannot be written is given up with a warning, once: the run
// matters more. Does not own: the page (report/run_report.h), metrics.jsonl. Thread-safety: one
// thread at a time.
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

// The step that ran last, by rank of the run; empty where nothing is known.
struct LastStep {
  std::int64_t step = 0;
  std::vector<std::vector<RanInstruction>> ranks;
};

// Collective over all ranks: what each kept of the step that it has just made.
LastStep gather_last_step(const Group& world, const FlightRecord& own);

enum class Ending { kFinished, kStopped, kFailed };  // kStopped: by a signal

struct RunEnd {
  Ending ending = Ending::kFinished;
  std::int64_t step = 0;  // step that is done
  std::string weights;    // "": none were saved
  std::string error;
  bool refused = false;  // the error is one of weights, data or numbers, which says it all
  LastStep last;
};

class RunStory {
 public:
  // All outlive it.
  RunStory(const RunConfig& config, const Plan& plan, const TokenData& data,
           const ResumePoint& resume)
      : config_(config), plan_(plan), data_(data), resume_(resume) {}

  // All ranks are ready for the first step. threads: of each rank's operators. What an earlier
  // process of the run told is kept.
  void begin(int threads_per_rank);
  // The first step is done: writes run.json. Weights or data that end the run before it are
  // refused, and leave nothing.
  void first_step_done();
  void step(const StepMetrics& metrics);
  // A checkpoint of this step is being made.
  void saves(std::int64_t step);
  // Nothing more is written: the folder is gone.
  void give_up() { given_up_ = true; }
  // The end, in run.json; then the files that metrics.report and metrics.enable_tensorboard ask
  // for. Does nothing if the run never started, or was refused. Returns the lines that report them.
  std::string end(const RunEnd& of);

 private:
  void keep_earlier();
  // False, and a warning, where it cannot be written; nothing else is written then.
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
