// Predicts the time and memory of a program under given costs, and draws it as text.
//
//     sluice::Simulation result = sluice::simulate(program, sluice::parse_costs("F=1,I=1,W=1"));
//     std::cout << sluice::draw_grid(result);
//
// A compute action starts when its rank is free and its inputs have arrived. Messages of a channel
// follow each other, take bytes / bandwidth, and arrive `latency` later. UNSHARD and reductions
// overlap with compute. A rank runs its UNSHARDs one by one, and its reductions too. Collectives
// start when all members have posted them. PARTIAL_NORM fills idle time. UPDATE and OPTIMIZER_STEP
// occupy their rank. Times are in any one unit (docs/simulate.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/program.h"
#include "sluice/verify.h"

namespace sluice {

struct StageCosts {
  // Times per microbatch, except optimizer_step per step.
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double backward = 0;
  double unshard = 0;
  double reduce_gradients = 0;
  double partial_norm = 0;
  double optimizer_step = 0;  // UPDATE, or the stage's share of OPTIMIZER_STEP and norm
  // Bytes. Stages of a rank add up, but only their largest running_bytes counts.
  double kept_bytes = 0;              // per microbatch from F to B or I
  double kept_after_input_bytes = 0;  // per microbatch from I to W
  double held_bytes = 0;              // all the time
  double running_bytes = 0;           // additional during a backward
  friend bool operator==(const StageCosts&, const StageCosts&) = default;
};

struct Costs {
  // For all stages if per_stage is empty.
  StageCosts uniform = {.forward = 1, .backward_input = 1, .backward_weight = 1, .backward = 2};
  std::vector<StageCosts> per_stage;
  double reduce_tied = 0.0;  // of one tie group
  double reduce_loss = 0.0;
  double gather_outputs = 0.0;
  double reduce_norm = 0.0;
  double action = 0.0;  // added to every compute action
  // Ranks that can compute at once (0: all). A step takes at least work / parallel_ranks.
  double parallel_ranks = 0.0;
  double latency = 0.0;
  double bandwidth = 0.0;             // bytes per unit of time; 0: infinite
  std::vector<double> message_bytes;  // between each stage and the next; empty: 0
  std::vector<double> rank_speed;     // empty: 1
  std::string file;
};

// Parses "F=1,I=1,W=1,B=2,comm=0,UNSHARD=0,..." with any keys in any order. comm is the latency,
// and B defaults to I + W. Throws Error(kUsage) for a bad text.
Costs parse_costs(std::string_view text);
// Parses the JSON of docs/simulate.md. Throws Error(kInput) for a bad text.
Costs read_costs(const std::string& path);

struct TimedAction {
  Action action;
  double start = 0, end = 0;
};

struct RankTimeline {
  std::vector<TimedAction> actions;  // compute actions; an overlapped pair is two
  double busy = 0;                   // time in compute actions and updates
  double update = 0;                 // part of `busy` in updates
  double finish = 0;
  double warmup = 0, waiting = 0, drain = 0;
  // Most forwards at once whose W or B (second member: I or B) has not run.
  int peak_live = 0, peak_live_until_grad_input = 0;
  double peak_bytes = 0;  // 0 if the costs have no bytes
  std::vector<int> live;  // forwards without their W or B, after each instruction
};

struct Simulation {
  double makespan = 0;
  double bubble_fraction = 0;  // idle time / (ranks * makespan)
  std::vector<RankTimeline> ranks;
  // A chain of compute actions that spans the makespan. `index` is a position in
  // RankTimeline::actions.
  struct Step {
    int rank = 0;
    int index = 0;
  };
  std::vector<Step> critical_path;

  template <typename Value>
  std::vector<Value> per_rank(Value RankTimeline::*member) const {
    std::vector<Value> values;
    for (const RankTimeline& rank : ranks) values.push_back(rank.*member);
    return values;
  }
};

// The program must have passed verify(). Throws Error(kUsage) for negative costs or wrong sizes.
Simulation simulate(const Program& program, const Costs& costs = {});

struct GridOptions {
  bool color = false;
  int width = 120;  // columns; longer grids are cut in the middle
};

// Draws one row per rank in unit slots.
std::string draw_grid(const Simulation& simulation, const GridOptions& options = {});

// Draws the program's instructions without timing, with the reason of each violation.
std::string draw_violations(const Program& program, const VerifyReport& report,
                            const GridOptions& options = {});

}  // namespace sluice
