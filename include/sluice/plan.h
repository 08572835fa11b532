// The plan of a pipeline: everything that is known before a device is touched.
//
// Invariant: plan_pipeline() returns proven programs only.
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

// The end of a training step: the caller's optimizer, or sluice's.
enum class StepEnd {
  kGradients,  // with the loss and the sums of gradients: the update is the caller's
  kUpdate,     // with norm, check and update of everything that trains, by Trainer (trainer.h)
};

// The times at which your hook reduces gradients (RunOptions::reduction).
enum class HookedReduction {
  kNone,
  kStep,        // once a step, when the gradients of a stage are complete
  kMicrobatch,  // after every backward
};

// The options of a plan: plan_pipeline(model, {.num_ranks = 4, .schedule = "ZBVZeroBubble",
// .num_microbatches = 8})
struct PipelineOptions {
  // Number of ranks of the pipeline, each with at least one stage. None: that of own_schedule, else
  // 1.
  std::optional<int> num_ranks = {};

  // True: chooses the schedule that is expected to be fastest within memory_per_rank, among all
  // named ones, with every number of stages a rank that they can have (or that of the partition, if
  // given), and a searched order (docs/schedules.md). Excludes `schedule` and `own_schedule`.
  bool auto_schedule = false;

  // The schedule, by name. None: "1F1B" where every rank has one stage, and "Interleaved1F1B" where
  // the split makes several.
  std::optional<ScheduleName> schedule = {};

  // Your own schedule, for instance from read_schedule_csv(); wins over `schedule`. It decides the
  // number and the ranks of the stages, so partition must not. Throws RefusedSchedule if the proof
  // refuses it.
  std::optional<Schedule> own_schedule = {};

  // Number of microbatches of a step: more make the bubble smaller and the batch larger. None: that
  // of own_schedule, else 1, with a warning if there are several ranks.
  std::optional<int> num_microbatches = {};

  // The layers of each stage and the rank of each stage. num_ranks and schedule are those above:
  // its own num_ranks, if given, must be the same; its schedule is ignored.
  PartitionOptions partition = {};

  // The end of the program of a training step.
  StepEnd step_end = StepEnd::kGradients;
  // True: the program of a training step gathers the model's outputs on all ranks (GATHER_OUTPUTS).
  bool gathers_outputs = false;
  // REDUCE_GRAD for a hook; run() sets it from RunOptions::reduction. Excludes several replicas.
  HookedReduction hooked_reduction = HookedReduction::kNone;

  // The quantity that the cuts make even; with any but kEven, partition must name no cuts, weights
  // or remainder.
  Balance balance = Balance::kEven;

  // The times of layers, for a prediction in seconds and for kMeasured. None: F, I and W of a stage
  // take 1 (kCost: their counted operations).
  std::shared_ptr<const LayerTimes> times = {};

  // Bytes that a rank may use: splits and schedules that need more are not chosen. None: no limit.
  std::optional<std::int64_t> memory_per_rank = {};

  // Sequences of a microbatch, and tokens of a sequence: they decide the memory of activations and
  // the sizes of messages, not the program.
  std::int64_t microbatch_size = 1;
  std::int64_t seq_len = 512;

  // Patterns ("*.norm.weight") of the full names of parameters to train; `*` is any run of
  // characters. The rest is frozen: it has no gradient and no optimizer state, and the program has
  // no instructions for it alone. Only for a model that knows its parameters; freeze your own
  // layers by requires_grad in LayerSpec::make.
  std::vector<std::string> trainable = {"*"};
  // Patterns of the names of layers of which nothing trains, for layers whose parameters the plan
  // does not know: needed in a plan that is made ahead; run() finds out by itself.
  std::vector<std::string> frozen_layers = {};

  // Layers that run twice to keep less: the program is the same, memory shrinks, backwards take
  // longer.
  ActivationCheckpoint activation_checkpoint = {};

  // Replicas of the pipeline: the run has degree x num_ranks ranks. num_microbatches are those of
  // one replica.
  DataParallel data_parallel = {};
  // Ranks that share every layer of a stage: the run has degree times as many ranks. Memory and
  // operations are then those of a rank's slices.
  TensorParallel tensor_parallel = {};
  // The order of the ranks' numbers, the fastest axis last: pp, dp, cp and tp in any order. "pp,dp"
  // and "dp,pp" are short for the same with cp and tp after them.
  std::string rank_order = "pp,dp,cp,tp";

  // The optimizer whose state counts towards the memory of a rank, also if it is the caller's.
  OptimizerKind optimizer = OptimizerKind::kAdamW;

  // True: checkpoints are written while training goes on, from a copy of parameters and optimizer
  // state that every rank keeps on its host and that counts towards its memory.
  bool keeps_snapshot = false;
};

// Bytes of tensors that a rank of any replica holds, from the shapes of its parameters and
// microbatches. Activations are what LibTorch's operators keep for the backward on the CPU
// (docs/memory.md). Sums saturate.
struct RankMemory {
  std::int64_t num_parameters = 0;  // a parameter that is used twice on the rank counts once
  std::int64_t parameter_bytes = 0;
  std::int64_t gradient_bytes = 0;    // one sum for every use, times the sums open at once
  std::int64_t optimizer_bytes = 0;   // AdamW: two moments
  std::int64_t snapshot_bytes = 0;    // copy for a checkpoint; always on the host
  std::int64_t activation_bytes = 0;  // of all live microbatches, at its maximum
  std::int64_t running_bytes = 0;     // beyond these, at the peak, while an action runs
  std::int64_t reduction_bytes = 0;   // beyond these, at the peak, in exchanges of replicas
  std::int64_t gathered_bytes = 0;    // sharded parameters, gathered while stages need them
  // The bytes that are held all the time, and those at the peak.
  std::int64_t held_bytes() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + snapshot_bytes;
  }
  std::int64_t total_bytes() const;
};

// The time that a step is expected to take on one rank. Times are those of Plan::simulation.
struct RankPrediction {
  double busy = 0;    // time in its own actions
  double finish = 0;  // end of its last action
  int peak_live = 0;  // largest number of forwards whose W or B has not run
  RankMemory memory;
};

// A schedule that auto_schedule compared.
struct ScheduleCandidate {
  std::string name;  // name of the schedule
  int stages_per_rank = 1;
  Placement placement = Placement::kLoop;
  double step = 0;               // expected time of a step, in Plan::time_unit
  double bubble_fraction = 0;    // idle share of the step
  std::int64_t peak_bytes = 0;   // peak of the rank that needs most
  std::string refusal;           // the reason against it; "": it is possible, and the numbers hold
  bool short_of_memory = false;  // whether memory_per_rank is that reason
  bool taken = false;
};

struct Plan {
  ModelSpec model;
  MicrobatchShape microbatch;
  Partition partition;
  Schedule schedule;
  DataParallel data_parallel;
  TensorParallel tensor_parallel;
  std::string rank_order;  // order of program.mesh
  StepEnd step_end = StepEnd::kGradients;
  bool gathers_outputs = false;
  HookedReduction hooked_reduction = HookedReduction::kNone;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  bool keeps_snapshot = false;
  Program program;        // the program of a training step that runs
  VerifyReport report;    // ok()
  Costs costs;            // costs, layers that run again included
  std::string time_unit;  // unit of costs and simulation: "s", "GFLOP"; "": F, I, W take 1
  Simulation simulation;  // under `costs`
  Balance balance = Balance::kEven;             // of the split
  std::optional<std::int64_t> memory_per_rank;  // the given limit, in bytes
  std::vector<ScheduleCandidate> candidates;    // of auto_schedule, in the order of its table
  std::vector<RankPrediction> ranks;            // the prediction for each rank
  std::vector<std::string> notes;               // choices, and options that gave way to others
  // Settings that are allowed, but probably a mistake; each text starts with the option it is
  // about.
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
// options that do not fit the model or each other (the place is the option, if it is a single one),
// and RefusedSchedule (kInput) with the first violation of a schedule that cannot run.
Plan plan_pipeline(ModelSpec model, const PipelineOptions& options);

// The times of a model's layers on a machine, for PipelineOptions::times: a file of `sluice plan
// --measure` (docs/simulate.md). Throws Error(kInput) naming file and field.
std::shared_ptr<const LayerTimes> read_layer_times(const std::string& path);

// The plan for people: split, schedule as a grid, proof, prediction, memory per rank, notes.
// Several lines, each ending in '\n', of at most options.width columns (80 or more) if words and
// names fit.
std::string describe_plan(const Plan& plan, const GridOptions& options);
// The same, as wide as necessary.
std::ostream& operator<<(std::ostream& out, const Plan& plan);
// The same as one JSON object: "model", "split" (as `sluice split --json`), "schedule",
// "data_parallel", "check" and "simulate" (as `sluice schedule`), "memory" (one object a rank of a
// replica), "notes", "warnings".
std::string plan_json(const Plan& plan);

}  // namespace sluice
