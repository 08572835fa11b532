// Prediction: event-driven replay of a program under given costs, and its picture on a terminal.
//
// Meaning of instructions as in program.h: SEND and RECV are posts that take no time on the rank;
// a compute action starts when the rank is free and its inputs have arrived. A pair runs its
// forward, then its backward; a SEND that follows its pair leaves when its own half has ended.
// Messages of one channel follow each other over it: each occupies it for bytes / bandwidth and
// arrives `latency` later. UNSHARD and the reductions are posts that take no time on the rank: they
// last as long as their cost says, those of one kind on one rank one after another, beside compute;
// REDUCE_TIED, REDUCE_LOSS and REDUCE_NORM begin when all members have posted them; the first user,
// or the end of the row, waits. PARTIAL_NORM takes of its rank the time that it waits anyway, and
// what is left when its user comes. UPDATE keeps its rank for the update of its stage,
// OPTIMIZER_STEP for those of the stages that no UPDATE was about; RESHARD takes no time. A program
// without transfers hands over at the end of each action. Units: any one unit of time; sizes in
// bytes, bandwidth in bytes per unit of time. Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/program.h"
#include "sluice/verify.h"

namespace sluice {

// The costs of a stage, or of a layer, at one shape of microbatches.
struct StageCosts {
  // Times of one microbatch, but for the last, which comes once a step.
  double forward = 0;           // F
  double backward_input = 0;    // I
  double backward_weight = 0;   // W
  double backward = 0;          // B, which may take less than I and W
  double unshard = 0;           // UNSHARD
  double reduce_gradients = 0;  // REDUCE_GRAD
  double partial_norm = 0;      // PARTIAL_NORM
  double optimizer_step = 0;    // UPDATE; its share of the rank's OPTIMIZER_STEP and norm
  // Bytes. Those of a rank's stages add up, but for running_bytes, of which it needs the most.
  double kept_bytes = 0;              // of a microbatch from F to B or I
  double kept_after_input_bytes = 0;  // of a microbatch from I to W
  double held_bytes = 0;              // all the time
  double running_bytes = 0;           // more than these while one of its backwards runs
  friend bool operator==(const StageCosts&, const StageCosts&) = default;
};

struct Costs {
  // Used when per_stage is empty.
  StageCosts uniform = {.forward = 1, .backward_input = 1, .backward_weight = 1, .backward = 2};
  std::vector<StageCosts> per_stage;  // empty, or one per stage
  // Times.
  double reduce_tied = 0.0;           // REDUCE_TIED of a group
  double reduce_loss = 0.0;           // REDUCE_LOSS
  double gather_outputs = 0.0;        // GATHER_OUTPUTS
  double reduce_norm = 0.0;           // REDUCE_NORM
  double action = 0.0;                // of every compute action, beside its own cost
  double parallel_ranks = 0.0;        // that compute at once at these costs; 0: all. Where there
                                      // are more, they cannot all be done before their share
  double latency = 0.0;               // of a transfer
  double bandwidth = 0.0;             // bytes per unit of time; 0: infinite
  std::vector<double> message_bytes;  // per cut (stage s -> its consumer), empty: 0
  std::vector<double> rank_speed;     // relative; empty: 1
  std::string file;                   // that they were read from; for errors
};

// "F=1,I=1,W=1,B=2,comm=0,UNSHARD=0,REDUCE_GRAD=0,PARTIAL_NORM=0,OPTIMIZER_STEP=0,..": any
// of them, in any order; comm is the latency, and B is I + W where it is not given. Throws
// Error(kUsage).
Costs parse_costs(std::string_view text);
// The JSON of docs/simulate.md, and a file of it. Throws Error(kInput).
Costs parse_costs_json(std::string_view text, const std::string& file_name);
Costs read_costs(const std::string& path);

// Stages whose backward cannot be split (docs/split-backward.md): I costs what B does, W nothing.
Costs charge_unsplit_stages(Costs costs, int num_stages, const std::vector<int>& stages);

struct TimedAction {
  Action action;
  double start = 0, end = 0;
};

// The actions of one rank in time, and how much of it the rank waits.
struct RankTimeline {
  std::vector<TimedAction> actions;           // compute actions, in order; a pair is two
  double busy = 0;                            // in compute actions and the update
  double update = 0;                          // of it: in UPDATE, OPTIMIZER_STEP
  double finish = 0;                          // of the last compute action
  double warmup = 0, waiting = 0, drain = 0;  // idle: before the first action, between, after
  // Largest number of (stage, microbatch) forwards whose W or B (resp. I or B) has not run.
  int peak_live = 0, peak_live_until_grad_input = 0;
  double peak_bytes = 0;  // at their most, where the costs know any (StageCosts)
  std::vector<int> live;  // after each instruction, until W or B
};

struct Simulation {
  double makespan = 0;  // end of the last compute action, of the update, of what a row waits for
  double bubble_fraction = 0;  // idle / (ranks * makespan)
  std::vector<RankTimeline> ranks;
  // A chain of compute actions, each starting when the one before it, its message or a post behind
  // it ends, that spans the makespan; "rank" and index into its actions.
  struct Step {
    int rank = 0;
    int index = 0;
  };
  std::vector<Step> critical_path;

  // One number of every rank: per_rank(&RankTimeline::busy).
  template <typename Value>
  std::vector<Value> per_rank(Value RankTimeline::*member) const {
    std::vector<Value> values;
    for (const RankTimeline& rank : ranks) values.push_back(rank.*member);
    return values;
  }
};

// For a program that has passed verify(); what passes the wrong way on a channel is not noticed
// here. Throws Error(kInput) if the program cannot complete, Error(kUsage) for costs that are
// negative or of the wrong size. Linear in the number of instructions.
Simulation simulate(const Program& program, const Costs& costs = {});

struct GridOptions {
  bool color = false;  // ANSI colours; the caller decides (tty, NO_COLOR)
  int width = 120;     // columns; a longer grid is cut in the middle of time with a note
};

// Time runs to the right, one row a rank, drawn from a simulated timeline in unit slots. Several
// lines, each ending in '\n'.
std::string draw_grid(const Simulation& simulation, const GridOptions& options = {});

// The instruction rows as they stand (no timing), with an arrow under the slot of each violation
// and the reason beside it. For programs that cannot be simulated.
std::string draw_violations(const Program& program, const VerifyReport& report,
                            const GridOptions& options = {});

}  // namespace sluice
