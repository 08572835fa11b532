// This process's part of a training run: its ranks and their shared state. The main thread uses it.
// Ranks' threads use only the members that allow it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "command/fingerprints.h"
#include "command/forensics.h"
#include "command/job.h"
#include "command/output_folders.h"
#include "command/processes.h"
#include "command/prompts.h"
#include "command/resume.h"
#include "command/run_log.h"
#include "command/saves.h"
#include "command/step_trace.h"
#include "command/weights.h"
#include "config/run_config.h"
#include "data/read_ahead.h"
#include "io/adapter_directory.h"
#include "launch/stop_signal.h"
#include "sluice/data.h"
#include "sluice/lora.h"
#include "sluice/parts/observers.h"
#include "sluice/plan.h"

namespace sluice {

struct ProcessRun {
  // Opens and checks everything, but creates no files.
  ProcessRun(const RunConfig& run_config, Plan run_plan, StopSignal& stop_signal,
             LocalRanks local_ranks, const std::optional<StepRange>& traced = {});

  // Runs the local ranks. Returns the number of steps done, including those before a resume. If no
  // steps are left, only reports this. If any rank of the run fails, saves what is useful and
  // throws the run's first failure.
  std::int64_t train();

  void require_steps_left(const std::optional<StepRange>& traced);

  // Starts to read the batches of the remaining steps.
  void read_ahead();
  // The rows of each batch that the rank's replica reads.
  BatchRange rows_of(int rank) const;

  // Where to save a step, with its manifest. Any thread may call this.
  SaveTarget target(std::int64_t step) const;

  // The log for rank 0, null for other ranks.
  RunLog* log_of(int rank) { return rank == kRankZero && log ? &*log : nullptr; }

  const RunConfig& config;
  const Plan plan;
  const std::optional<Adapter> adapter;
  StopSignal& stop;
  const LocalRanks ranks;
  const TokenData data;
  std::optional<data::ReadAhead> batches;  // only while steps run
  const std::optional<TokenData> validation;
  const std::deque<Prompt> prompts;
  const OpenedWeights weights;
  const std::optional<AdapterDirectory> adapter_tensors;  // tensors of model.adapter
  RunFingerprints made_of;
  // Every process finds it separately. The one with rank 0 writes it to checkpoints.
  ResumePoint resume;
  RunFolders folders;         // only with rank 0, while steps run
  std::optional<RunLog> log;  // only with rank 0
  MemoryLedger ledger;
  PostMortem post_mortem;
  FlightRecords flight;
  std::optional<StepTrace> trace;
  PerRank<InterruptedRank> interrupted;  // state that failed ranks leave
};

}  // namespace sluice
