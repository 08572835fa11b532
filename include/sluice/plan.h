// The plan of a run: everything that is known before a device is touched.
//
// Owns: the way from a RunConfig to a proven program, and what is said about it.
// Does not own: the steps of that way (partition.h, schedule.h, program.h, verify.h, simulate.h).
// Invariant: make_plan() returns proven programs only.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "sluice/model_spec.h"
#include "sluice/partition.h"
#include "sluice/parts/draw.h"
#include "sluice/program.h"
#include "sluice/run_config.h"
#include "sluice/schedule.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

namespace sluice {

// Bytes of tensors that a rank holds, from the shapes of its parameters and microbatches. What is
// kept for the backward is that of LibTorch's operators on the CPU (docs/memory.md). Sums stop at
// the largest number.
struct RankMemory {
  std::int64_t num_parameters = 0;  // a parameter that is used twice on the rank counts once
  std::int64_t parameter_bytes = 0;
  std::int64_t gradient_bytes = 0;    // one accumulator for every use
  std::int64_t optimizer_bytes = 0;   // AdamW: two moments
  std::int64_t activation_bytes = 0;  // of all live microbatches, when that is the most
  std::int64_t running_bytes = 0;     // more, at the peak, while an action runs
  // What is held all the time, and the peak.
  std::int64_t held_bytes() const { return parameter_bytes + gradient_bytes + optimizer_bytes; }
  std::int64_t total_bytes() const;
};

struct Plan {
  ModelSpec model;
  Partition partition;
  Schedule schedule;
  Program program;                    // with transfers, reductions, norm and optimizer step
  VerifyReport report;                // ok()
  Simulation simulation;              // unit costs
  std::vector<RankMemory> memory;     // per rank
  std::vector<std::string> notes;     // what was chosen, or gave way to another key
  std::vector<std::string> warnings;  // what is allowed, but hardly meant
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

// Reads the model's config.json, splits it, builds or reads the schedule, lowers, proves and
// simulates it. Reads no weights. Throws Error(kUsage) for a configuration without a model or that
// does not fit it, Error(kInput) for the files that it names, RefusedSchedule (kInput) with the
// first violation of a schedule that cannot run.
Plan make_plan(const RunConfig& config);

// For people: split, schedule as a grid, proof, prediction, memory per rank, notes. Several lines,
// each ending in '\n', of at most options.width columns (80 or more) where words and names allow
// it.
std::string describe_plan(const RunConfig& config, const Plan& plan, const GridOptions& options);
// The same as one JSON object: "model", "split" (as `sluice split --json`), "schedule", "check" and
// "simulate" (as `sluice schedule`), "memory" (one object a rank), "notes", "warnings".
std::string plan_json(const RunConfig& config, const Plan& plan);

}  // namespace sluice
