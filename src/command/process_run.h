// One process's part of a training run, for the main thread.
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
  // Checks all inputs and folders, but creates nothing.
  ProcessRun(const RunConfig& run_config, Plan run_plan, StopSignal& stop_signal,
             LocalRanks local_ranks, const std::optional<StepRange>& traced = {});

  // Runs the local ranks. Returns the number of steps done, including earlier runs'. If a rank of
  // any process fails, saves weights and records and throws the run's first failure.
  std::int64_t train();

  void set_resumed_steps();
  void require_steps_left(const std::optional<StepRange>& traced);

  void read_ahead();
  // Returns the rows of each batch that belong to the rank's replica.
  BatchRange rows_of(int rank) const;

  // Returns where and how to save a step. Thread-safe.
  SaveTarget target(std::int64_t step) const;

  RunLog* log_of(int rank) { return rank == kRankZero && log ? &*log : nullptr; }

  RunConfig config;  // with the numbers of steps that depend on the data
  const Plan plan;
  const std::optional<Adapter> adapter;
  StopSignal& stop;
  const LocalRanks ranks;
  const TokenData data;
  std::optional<data::ReadAhead> batches;
  const std::optional<TokenData> validation;
  const std::deque<Prompt> prompts;
  const OpenedWeights weights;
  const std::optional<AdapterDirectory> adapter_tensors;
  const std::shared_ptr<const ModelSpec> part_of_source;
  RunFingerprints made_of;
  ResumePoint resume;
  RunFolders folders;
  std::optional<RunLog> log;
  MemoryLedger ledger;
  PostMortem post_mortem;
  FlightRecords flight;
  std::optional<StepTrace> trace;
  PerRank<InterruptedRank> interrupted;  // the objects of ranks whose steps failed
};

}  // namespace sluice
