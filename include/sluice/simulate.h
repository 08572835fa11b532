// Prediction: event-driven replay of a program under given costs, and its picture on a terminal.
//
// Meaning of instructions as in program.h: SEND and RECV are posts that take no time on the rank;
// a compute action starts when the rank is free and its inputs have arrived. A pair runs its
// forward, then its backward; a SEND that follows its pair leaves when its own half has ended.
// Messages of one channel follow each other over it: each occupies it for bytes / bandwidth and
// arrives `latency` later. UNSHARD and the reductions are posts that take no time on the rank: they
// last for their cost, in parallel with compute, those of one kind on one rank one after another;
// REDUCE_TIED, REDUCE_LOSS and REDUCE_NORM start when all members have posted them; the first user,
// or the end of the row, waits. PARTIAL_NORM runs while the rank would otherwise be idle; the rest
// is charged when its first user needs it. UPDATE occupies its rank for the update of its stage,
// OPTIMIZER_STEP for those of the stages without an UPDATE; RESHARD takes no time. A program
// without transfers hands over at the end of each action. Units: any one unit of time; sizes in
// bytes, bandwidth in bytes per unit of time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/program.h"
#include "sluice/verify.h"

namespace sluice {

// The costs of a stage, or of a layer, at one shape of microbatches.
struct StageCosts {
  // Times of one microbatch; the last is that of a step.
  double forward = 0;           // F
  double backward_input = 0;    // I
  double backward_weight = 0;   // W
  double backward = 0;          // B, which may be less than I + W
  double unshard = 0;           // UNSHARD
  double reduce_gradients = 0;  // REDUCE_GRAD
  double partial_norm = 0;      // PARTIAL_NORM
  double optimizer_step = 0;    // UPDATE, or its share of the rank's OPTIMIZER_STEP and norm
  // Bytes. Those of a rank's stages add up, except running_bytes, whose maximum counts.
  double kept_bytes = 0;              // of a microbatch from F to B or I
  double kept_after_input_bytes = 0;  // of a microbatch from I to W
  double held_bytes = 0;              // all the time
  double running_bytes = 0;           // beyond these while one of its backwards runs
  friend bool operator==(const StageCosts&, const StageCosts&) = default;
};

struct Costs {
  // Used when per_stage is empty.
  StageCosts uniform = {.forward = 1, .backward_input = 1, .backward_weight = 1, .backward = 2};
  std::vector<StageCosts> per_stage;  // empty, or one per stage
  // Times.
  double reduce_tied = 0.0;     // REDUCE_TIED of a group
  double reduce_loss = 0.0;     // REDUCE_LOSS
  double gather_outputs = 0.0;  // GATHER_OUTPUTS
  double reduce_norm = 0.0;     // REDUCE_NORM
  double action = 0.0;          // added to every compute action
  // Number of ranks that have a core for each of their threads; 0: all. With more ranks a step
  // takes at least the time of all their work divided by this.
  double parallel_ranks = 0.0;
  double latency = 0.0;               // time of a transfer beside its bytes
  double bandwidth = 0.0;             // bytes per unit of time; 0: infinite
  std::vector<double> message_bytes;  // per cut (stage s -> its consumer), empty: 0
  std::vector<double> rank_speed;     // relative; empty: 1
  std::string file;                   // file that they were read from, for errors
};

// The costs of a text "F=1,I=1,W=1,B=2,comm=0,UNSHARD=0,REDUCE_GRAD=0,OPTIMIZER_STEP=0,..": any of
// them, in any order; comm is the latency, and B is I + W where it is not given. Throws
// Error(kUsage).
Costs parse_costs(std::string_view text);
// The costs of the JSON of docs/simulate.md, as text or in a file. Throws Error(kInput).
Costs parse_costs_json(std::string_view text, const std::string& file_name);
Costs read_costs(const std::string& path);

// The costs if the backward of these stages cannot be split (docs/numbers.md): I costs as
// much as B, W nothing.
Costs charge_unsplit_stages(Costs costs, int num_stages, const std::vector<int>& stages);

struct TimedAction {
  Action action;
  double start = 0, end = 0;
};

// The actions of one rank in time, and its idle times.
struct RankTimeline {
  std::vector<TimedAction> actions;           // compute actions, in order; a pair is two
  double busy = 0;                            // time in compute actions and the update
  double update = 0;                          // part of busy in UPDATE, OPTIMIZER_STEP
  double finish = 0;                          // end of the last compute action
  double warmup = 0, waiting = 0, drain = 0;  // idle: before the first action, between, after
  // Largest number of (stage, microbatch) forwards whose W or B (resp. I or B) has not run.
  int peak_live = 0, peak_live_until_grad_input = 0;
  double peak_bytes = 0;  // at the maximum, if the costs have bytes (StageCosts)
  std::vector<int> live;  // live forwards after each instruction
};

struct Simulation {
  double makespan = 0;  // latest end of a compute action, an update, or a post that a row waits for
  double bubble_fraction = 0;  // idle / (ranks * makespan)
  std::vector<RankTimeline> ranks;
  // A chain of compute actions that spans the makespan, each starting when the one before it ends,
  // or its message, or a post after it; `index` counts the rank's actions.
  struct Step {
    int rank = 0;
    int index = 0;
  };
  std::vector<Step> critical_path;

  // One member of every rank's timeline: per_rank(&RankTimeline::busy).
  template <typename Value>
  std::vector<Value> per_rank(Value RankTimeline::*member) const {
    std::vector<Value> values;
    for (const RankTimeline& rank : ranks) values.push_back(rank.*member);
    return values;
  }
};

// Replays a program that has passed verify(); a message of the wrong channel is not noticed here.
// Throws Error(kInput) if the program cannot complete, Error(kUsage) for costs that are negative or
// of the wrong size. Linear in the number of instructions.
Simulation simulate(const Program& program, const Costs& costs = {});

struct GridOptions {
  bool color = false;  // ANSI colours; the caller decides (tty, NO_COLOR)
  int width = 120;     // columns; a longer grid is cut in its middle, with a note
};

// The picture of a simulation, in unit slots: one row for each rank, time runs to the right, and a
// slot in which a rank is idle is empty.
// Several lines, each ending in '\n'.
std::string draw_grid(const Simulation& simulation, const GridOptions& options = {});

// The instruction rows as they stand (no timing), with an arrow under the slot of each violation
// and the reason beside it. For programs that cannot be simulated.
std::string draw_violations(const Program& program, const VerifyReport& report,
                            const GridOptions& options = {});

}  // namespace sluice
