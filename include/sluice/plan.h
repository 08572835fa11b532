// Plans a pipeline before any device is used. A plan has the split into stages, the schedule, the
// program (every rank's instructions for a step), a proof that the program cannot deadlock, and a
// prediction of time and memory.
//
//     sluice::Plan plan = sluice::plan_pipeline(sluice::model_spec_of_blocks(16),
//                                               {.num_ranks = 4, .num_microbatches = 8});
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

enum class Balance {
  kEven,      // equal numbers of layers
  kCost,      // equal operations (LayerCost)
  kMeasured,  // equal measured times (PipelineOptions::times)
};

enum class StepEnd {
  kGradients,  // the caller updates weights
  kUpdate,     // Trainer updates weights
};

// When RunOptions::reduction runs.
enum class HookedReduction {
  kNone,
  kStep,        // once a step, after a stage's last backward
  kMicrobatch,  // after every backward
};

// {.schedule = "ZBVZeroBubble"}, {.schedule = "auto"} or {.schedule = read_schedule_csv(path)}.
struct ScheduleChoice {
  // Chooses the fastest schedule within memory_per_rank (docs/schedules.md).
  bool is_auto = false;
  // None: "1F1B", or "Interleaved1F1B" if ranks have several stages.
  std::optional<ScheduleName> name = {};
  // Your own schedule. It also places the stages, so `partition` must not.
  std::optional<Schedule> own = {};

  ScheduleChoice() = default;
  ScheduleChoice(ScheduleKind kind) : name(kind) {}
  ScheduleChoice(Schedule schedule) : own(std::move(schedule)) {}
  // Throws Error(kUsage) for an unknown name, with the nearest one.
  template <typename Text>
  requires std::convertible_to<const Text&, std::string_view> ScheduleChoice(const Text& text)
      : ScheduleChoice(parse(text)) {}

 private:
  static ScheduleChoice parse(std::string_view text);
};

struct PipelineOptions {
  // Ranks of one pipeline. None: as in schedule.own, else 1.
  std::optional<int> num_ranks = {};
  ScheduleChoice schedule = {};
  // None: as in schedule.own, else 1.
  std::optional<int> num_microbatches = {};
  // partition.schedule is ignored. partition.num_ranks must be 0 or equal num_ranks.
  PartitionOptions partition = {};
  StepEnd step_end = StepEnd::kGradients;
  // Gathers outputs on all ranks in training steps (GATHER_OUTPUTS).
  bool gathers_outputs = false;
  // Set by run() from RunOptions::reduction. Not with several replicas.
  HookedReduction hooked_reduction = HookedReduction::kNone;
  // `partition` may set cuts, weights or remainder only with kEven.
  Balance balance = Balance::kEven;
  // Measured times, for kMeasured and predictions in seconds. None: forward (F), input gradient (I)
  // and weight gradient (W) take 1 each, or time proportional to their operations.
  std::shared_ptr<const LayerTimes> times = {};
  // Bytes that splits and schedules may need. None: no limit.
  std::optional<std::int64_t> memory_per_rank = {};
  // For predicted memory and message sizes.
  std::int64_t microbatch_size = 1;
  std::int64_t seq_len = 512;
  // Patterns of full names of parameters that train ("*.norm.weight"). If the plan does not know
  // the parameters, clear requires_grad in LayerSpec::make and set `frozen_layers`.
  std::vector<std::string> trainable = {"*"};
  // Patterns of names of layers in which nothing trains.
  std::vector<std::string> frozen_layers = {};
  ActivationCheckpoint activation_checkpoint = {};
  // Multiplies the number of ranks. num_microbatches is per replica.
  DataParallel data_parallel = {};
  // Multiplies the number of ranks.
  TensorParallel tensor_parallel = {};
  ExpertParallel expert_parallel = {};
  // Mesh axes, the last one fastest. cp and tp may be omitted at the end.
  std::string rank_order = "pp,dp,cp,tp";
  // The optimizer whose state predicted memory includes, also for your own optimizer.
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  // Whether predicted memory includes a host copy of parameters and optimizer state, for saving
  // during training.
  bool keeps_snapshot = false;
};

// Bytes of tensors on a rank (docs/memory.md).
struct RankMemory {
  std::int64_t num_parameters = 0;  // a tied parameter counts once
  std::int64_t parameter_bytes = 0;
  std::int64_t gradient_bytes = 0;  // per use of a parameter and unfinished shard
  std::int64_t optimizer_bytes = 0;
  std::int64_t snapshot_bytes = 0;
  std::int64_t activation_bytes = 0;  // peak over all microbatches in flight
  std::int64_t running_bytes = 0;     // temporaries at the peak
  std::int64_t reduction_bytes = 0;   // reductions between replicas at the peak
  std::int64_t gathered_bytes = 0;    // sharded parameters while gathered
  std::int64_t held_bytes() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + snapshot_bytes;
  }
  std::int64_t total_bytes() const;
};

struct RankPrediction {
  double busy = 0;
  double finish = 0;
  int peak_live = 0;  // most forwards at once whose W or B has not run
  RankMemory memory;
};

// A schedule that "auto" compared.
struct ScheduleCandidate {
  std::string name;
  int stages_per_rank = 1;
  Placement placement = Placement::kLoop;
  double step = 0;  // in Plan::time_unit
  double bubble_fraction = 0;
  std::int64_t peak_bytes = 0;
  std::string refusal;  // why it was excluded; "": it was not
  bool short_of_memory = false;
  bool taken = false;
};

struct Plan {
  PipelineOptions options;  // as given, but schedule.own moves to `schedule`
  ModelSpec model;
  MicrobatchShape microbatch;
  Partition partition;
  Schedule schedule;
  Program program;
  VerifyReport report;
  Costs costs;            // including recomputed layers
  std::string time_unit;  // "s" or "GFLOP"; "": F, I and W take 1
  Simulation simulation;
  std::vector<ScheduleCandidate> candidates;
  std::vector<RankPrediction> ranks;
  std::vector<std::string> notes;  // choices and overridden options
  // Likely mistakes. Each starts with the option's name.
  std::vector<std::string> warnings;
};

// Thrown for an invalid schedule. Holds the arguments of draw_violations().
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

// Throws Error(kUsage) for options that contradict the model or each other, and RefusedSchedule
// (kInput) for a schedule that cannot run.
Plan plan_pipeline(ModelSpec model, const PipelineOptions& options);

// Reads a file of `sluice plan --measure` (docs/simulate.md). Throws Error(kInput) with file and
// field.
std::shared_ptr<const LayerTimes> read_layer_times(const std::string& path);

// options.width must be at least 80. Long names may exceed the width.
std::string describe_plan(const Plan& plan, const GridOptions& options);
std::ostream& operator<<(std::ostream& out, const Plan& plan);
std::string plan_json(const Plan& plan);

}  // namespace sluice
