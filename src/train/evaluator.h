// Forwards alone through a rank's stages, for batches of any number of microbatches: what
// Pipeline::eval_step, Trainer::evaluate and `sluice eval` are made of.
//
// Owns: proven programs with their executors, for the few numbers of microbatches that came last.
// Does not own: the stages, which a training may have between two evaluations.
// Thread-safety: one rank's thread.
#pragma once

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/build_stages.h"
#include "sluice/pipeline.h"
#include "train/sharded_parameters.h"
#include "train/step_runner.h"

namespace sluice {

class Evaluator {
 public:
  // trained: the program that trains the stages. sharded: parameters of theirs, gathered while it
  // runs; null: all are whole. References must outlive it.
  Evaluator(const Program& trained, RankStages& stages, Transport& transport,
            const RunGroups& groups, const ModelEnd& end, const RunOptions& options,
            const std::vector<ExecutorObserver*>& observers, ShardedParameters* sharded = nullptr);

  // Collective over all ranks. Each replica has its own batch, of any number of microbatches, also
  // none where there are several replicas. Modules are in evaluation mode meanwhile, and then each
  // in the mode that it was in.
  StepResult run(const StepBatch& batch, const StepOptions& options = {});
  // Of the last run, of all microbatches in order; the same on every rank.
  const std::vector<MicrobatchLoss>& losses() const { return losses_; }
  // The last instructions of this rank in the last run, which may have failed.
  std::string flight_record() const;
  std::size_t num_programs() const { return runners_.size(); }

  static constexpr std::size_t kMostPrograms = 4;

 private:
  struct Kind {
    int num_microbatches = 0;
    bool gathers_outputs = false;
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  struct Runner {
    template <typename... Parts>
    explicit Runner(const Kind& of, Parts&&... parts)
        : kind(of), step(std::forward<Parts>(parts)...) {}
    const Kind kind;
    StepRunner step;
  };
  StepRunner& runner_for(const Kind& kind);

  const Program& trained_;
  RankStages& stages_;
  Transport& transport_;
  const RunGroups groups_;
  const ModelEnd end_;
  const RunOptions& options_;
  const std::vector<ExecutorObserver*> observers_;
  ShardedParameters* const sharded_;
  const std::vector<SharedParameter> no_ties_;  // nothing is summed
  std::list<Runner> runners_;                   // the last used first
  std::vector<MicrobatchLoss> losses_;
};

}  // namespace sluice
