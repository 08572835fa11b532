// The plan of a pipeline: everything that is known before a device is touched.
//
// Owns: the way from a model to a proven program, with what it will take, and what is said about
// it. Does not own: the steps of that way (partition.h, schedule.h, program.h, verify.h,
// simulate.h). Invariant: plan_pipeline() returns proven programs only. Thread-safety: values.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "sluice/model_spec.h"
#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/program.h"
#include "sluice/schedule.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

namespace sluice {

struct LayerTimes;

// The quantity that the cuts of a split make even.
enum class Balance {
  kEven,      // numbers of layers, by the rules of the convention
  kCost,      // counted operations (LayerCost)
  kMeasured,  // PipelineOptions::times
};

// The end of a training step, and so whose optimizer it is.
enum class StepEnd {
  kGradients,  // with the loss and the sums of gradients: the update is the caller's
  kUpdate,     // with norm, check and update of everything that trains: that of Trainer (trainer.h)
};

// When a hook of the caller's reduces gradients (RunOptions::reduction).
enum class HookedReduction {
  kNone,
  kStep,        // once a step, when those of a stage are whole
  kMicrobatch,  // after every backward
};

// plan_pipeline(model, {.num_ranks = 4, .schedule = "ZBVZeroBubble", .num_microbatches = 8})
struct PipelineOptions {
  // Ranks of the pipeline, each with at least one stage. None: those of own_schedule, else 1.
  std::optional<int> num_ranks = {};

  // The schedule is chosen: of all named ones, with as many stages a rank as they can have (those
  // of the partition, where it says how many), and of a searched order, the one that is expected to
  // be fastest within memory_per_rank (docs/schedules.md). Neither `schedule` nor `own_schedule`
  // then.
  bool auto_schedule = false;

  // Which action runs when, by name. None: "1F1B" where every rank has one stage, and
  // "Interleaved1F1B" where the split makes several.
  std::optional<ScheduleName> schedule = {};

  // A schedule of your own, as read_schedule_csv() gives it; wins over `schedule`. It says where
  // the stages are and how many, so partition must not. One that the proof refuses is a
  // RefusedSchedule.
  std::optional<Schedule> own_schedule = {};

  // Microbatches of a step: more make the bubble smaller and the batch larger. None: those of
  // own_schedule, else 1, with a warning where there are several ranks.
  std::optional<int> num_microbatches = {};

  // Which stage has which layers, and which rank has which stage. num_ranks and schedule are those
  // above: its own num_ranks, where given, must say the same, its schedule is not looked at.
  PartitionOptions partition = {};

  // The end of the program of a training step.
  StepEnd step_end = StepEnd::kGradients;
  // The program of a training step gathers the model's outputs on all ranks (GATHER_OUTPUTS).
  bool gathers_outputs = false;
  // REDUCE_GRAD for a hook; run() sets it by RunOptions::reduction. Not beside several replicas.
  HookedReduction hooked_reduction = HookedReduction::kNone;

  // The quantity that the cuts make even; other than kEven, partition must name no cuts, weights or
  // remainder.
  Balance balance = Balance::kEven;

  // The time that layers take: a prediction in seconds, and what kMeasured goes by. None: F, I and
  // W of a stage take 1 (kCost: their counted operations).
  std::shared_ptr<const LayerTimes> times = {};

  // Bytes that a rank may use: splits and schedules that need more are not taken. None: no limit.
  std::optional<std::int64_t> memory_per_rank = {};

  // Sequences of a microbatch, and tokens of a sequence: they decide the memory of activations and
  // the sizes of messages, and nothing about the program.
  std::int64_t microbatch_size = 1;
  std::int64_t seq_len = 512;

  // Patterns ("*.norm.weight") of the full names of parameters to train; `*` is any run of
  // characters. The rest is frozen: it has no gradient and no optimizer state, and what would be
  // computed for it alone leaves the program. Only for a model that knows its parameters; layers of
  // your own are frozen by requires_grad, in LayerSpec::make.
  std::vector<std::string> trainable = {"*"};
  // Patterns of the names of layers of which nothing trains, for layers whose parameters the plan
  // does not know: run() finds out by itself, a plan made ahead is told here.
  std::vector<std::string> frozen_layers = {};

  // Layers that run twice to keep less: the program is the same, memory falls, backwards take
  // longer.
  ActivationCheckpoint activation_checkpoint = {};

  // Replicas of the pipeline: the run has degree x num_ranks ranks. num_microbatches are those of
  // one replica.
  DataParallel data_parallel = {};
  // Ranks that share every layer of a stage: the run has degree times as many. Memory and
  // operations are then those of a rank's slices.
  TensorParallel tensor_parallel = {};
  // The order of the ranks' numbers, the fastest axis last: pp, dp, cp and tp in any order. "pp,dp"
  // and "dp,pp" are short for it with cp and tp behind them.
  std::string rank_order = "pp,dp";

  // The optimizer whose state counts towards the memory of a rank, also where it is the caller's.
  OptimizerKind optimizer = OptimizerKind::kAdamW;

  // Checkpoints are written behind the training, from a copy of parameters and optimizer state that
  // every rank keeps on its host: counted in its memory.
  bool keeps_snapshot = false;
};

// Bytes of tensors that a rank holds, of whichever replica, from the shapes of its parameters and
// microbatches. What is kept for the backward is that of LibTorch's operators on the CPU
// (docs/memory.md). Sums stop at the largest number.
struct RankMemory {
  std::int64_t num_parameters = 0;  // a parameter that is used twice on the rank counts once
  std::int64_t parameter_bytes = 0;
  std::int64_t gradient_bytes = 0;    // one accumulator for every use, times the open sums
  std::int64_t optimizer_bytes = 0;   // AdamW: two moments
  std::int64_t snapshot_bytes = 0;    // of a checkpoint; on the host, also where the rest is not
  std::int64_t activation_bytes = 0;  // of all live microbatches, when that is the most
  std::int64_t running_bytes = 0;     // more, at the peak, while an action runs
  std::int64_t reduction_bytes = 0;   // more, at the peak, of what replicas exchange
  std::int64_t gathered_bytes = 0;    // of sharded parameters, whole where stages need them
  // The bytes that are held all the time, and the peak.
  std::int64_t held_bytes() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + snapshot_bytes;
  }
  std::int64_t total_bytes() const;
};

// The time that a step is expected to take on one rank. Times are those of Plan::simulation.
struct RankPrediction {
  double busy = 0;    // in its own actions
  double finish = 0;  // of its last action
  int peak_live = 0;  // most forwards at once whose W or B has not run
  RankMemory memory;
};

// One of those that auto_schedule looked at.
struct ScheduleCandidate {
  std::string name;  // of the schedule
  int stages_per_rank = 1;
  Placement placement = Placement::kLoop;
  double step = 0;              // expected, in the unit of Plan::time_unit
  double bubble_fraction = 0;   // of it
  std::int64_t peak_bytes = 0;  // of the rank that needs most
  std::string refusal;          // why it cannot be taken; "": it can, and the numbers above hold
  bool taken = false;
};

struct Plan {
  ModelSpec model;
  MicrobatchShape microbatch;
  Partition partition;
  Schedule schedule;
  DataParallel data_parallel;
  TensorParallel tensor_parallel;
  std::string rank_order;  // of program.mesh
  StepEnd step_end = StepEnd::kGradients;
  bool gathers_outputs = false;
  HookedReduction hooked_reduction = HookedReduction::kNone;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  bool keeps_snapshot = false;
  Program program;                   // of a training step, whole: what runs
  VerifyReport report;               // ok()
  Costs costs;                       // with what runs again in the backward
  std::string time_unit;             // of costs and simulation: "s", "GFLOP"; "": F, I, W take 1
  Simulation simulation;             // under `costs`
  Balance balance = Balance::kEven;  // of the split
  std::optional<std::int64_t> memory_per_rank;  // bytes, as asked for
  std::vector<ScheduleCandidate> candidates;    // of auto_schedule, in the order of its table
  std::vector<RankPrediction> ranks;            // what each will take
  std::vector<std::string> notes;               // what was chosen, or gave way to another option
  // Settings that are allowed, but hardly meant; each begins with the option that it is about.
  std::vector<std::string> warnings;
};

// A schedule that the proof refuses, with what is needed to draw it.
class RefusedSchedule : public Error {
 public:
  RefusedSchedule(const Error& error, Program program, VerifyReport report);
  const Program& program() const noexcept { return refused_->program; }
  const VerifyReport& report() const noexcept { return refused_->report; }

 private:
  struct Refused {
    Program program;
    VerifyReport report;
  };
  std::shared_ptr<const Refused> refused_;
};

// Splits the model, builds the schedule, lowers, proves and simulates it. Throws Error(kUsage) for
// options that do not fit the model or each other, with the option as the place where that is one
// option, and RefusedSchedule (kInput) with the first violation of a schedule that cannot run.
Plan plan_pipeline(ModelSpec model, const PipelineOptions& options);

// The times that the layers of a model take on a machine: a file of `sluice plan --measure`
// (docs/simulate.md), for PipelineOptions::times. Throws Error(kInput) naming file and field.
std::shared_ptr<const LayerTimes> read_layer_times(const std::string& path);

// For people: split, schedule as a grid, proof, prediction, memory per rank, notes. Several lines,
// each ending in '\n', of at most options.width columns (80 or more) where words and names allow
// it.
std::string describe_plan(const Plan& plan, const GridOptions& options);
// The same, as wide as it needs to be.
std::ostream& operator<<(std::ostream& out, const Plan& plan);
// The same as one JSON object: "model", "split" (as `sluice split --json`), "schedule",
// "data_parallel", "check" and "simulate" (as `sluice schedule`), "memory" (one object a rank of a
// replica), "notes", "warnings".
std::string plan_json(const Plan& plan);

}  // namespace sluice
