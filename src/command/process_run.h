// This process's part of a training run: its ranks and their shared state.
//
// Owns: data, headers of the weights, the start of the run, its printed and recorded output, and
// the remains of ranks that failed. Does not own: the work of one rank (train_rank.h), the end of a
// run that fails (failed_run.h). Thread-safety: for the main thread; the ranks' threads use only
// the members that document it.
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
  // Opens and checks everything; creates nothing.
  ProcessRun(const RunConfig& run_config, Plan run_plan, StopSignal& stop_signal,
             LocalRanks local_ranks, const std::optional<StepRange>& traced = {});

  // Runs the ranks that are here, and keeps what is worth it when one fails, wherever. Returns the
  // number of steps done, those before the run went on included. Does nothing but say so where the
  // last is done already. Throws the first failure of all ranks.
  std::int64_t train();

  // The checks of a run that has steps to make.
  void require_steps_left(const std::optional<StepRange>& traced);

  // Begins to read the batches of the steps that are left.
  void read_ahead();
  // The rows of every batch that are the rank's replica's.
  BatchRange rows_of(int rank) const;

  // The place where this run saves a step, and what the manifest says of the run. Any rank's thread
  // may ask.
  SaveTarget target(std::int64_t step) const;

  // The log, for the rank that speaks; null for every other.
  RunLog* log_of(int rank) { return rank == kRankZero && log ? &*log : nullptr; }

  const RunConfig& config;
  const Plan plan;
  const std::optional<Adapter> adapter;
  StopSignal& stop;
  const LocalRanks ranks;
  const TokenData data;
  std::optional<data::ReadAhead> batches;     // batches of the steps, while they run
  const std::optional<TokenData> validation;  // validation.files, where there are any
  const std::deque<Prompt> prompts;           // validation.prompts
  const OpenedWeights weights;
  const std::optional<AdapterDirectory> adapter_tensors;  // tensors of model.adapter
  RunFingerprints made_of;
  // Every process finds it by itself; the speaker's is in what is saved.
  ResumePoint resume;
  RunFolders folders;         // the speaker's, while steps are made
  std::optional<RunLog> log;  // where the speaker is
  MemoryLedger ledger;
  PostMortem post_mortem;
  FlightRecords flight;
  std::optional<StepTrace> trace;
  PerRank<InterruptedRank> interrupted;  // remains of the ranks whose steps failed
};

}  // namespace sluice
