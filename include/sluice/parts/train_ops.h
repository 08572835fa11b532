// The end of a training step: gradients of all replicas, tied ones, loss, global norm, update.
// Carries out what the executor leaves to StepOps.
//
// Owns: the list of all parameters of a pipeline in layer order, and what goes by it: the sums over
// replicas, those of ties, the loss, the norm, the update with its optimizer (one file each in
// src/train).
// Does not own: gradients of single uses (Stage), order (Program), what is printed (metrics.h).
//
// Invariants:
//  1. Every rank draws the same report from the same gathered numbers, and so takes the same
//     decisions (skip an update that is not finite, save, stop).
//  2. Gradients of the uses of a tied parameter are summed in layer order, wherever the uses are,
//     and each use gets the sum. The parameter counts once in the norm, for the rank of its first
//     use, and for the first of the ranks over which it is replicated. Uses on one rank share
//     storage and are updated once; uses on several ranks get the same update on each.
//  3. The norm is a fixed tree over the parameters in layer order (gradient_norm.h).
//  4. Gradients add up over the microbatches of a replica, then over replicas (data_parallel.h),
//     then over the uses of a tie: the same bits on every replica.
//  5. Every rank holds its parameters whole, unless zero3 shards them (UNSHARD, RESHARD).
//     With zero1 it holds the optimizer's state of the blocks that it owns, and gradients are whole
//     only until they are reduced; norm and weights are the same bits.
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/optimizer.h"
#include "sluice/options.h"
#include "sluice/parts/data_parallel.h"
#include "sluice/parts/executor.h"
#include "sluice/parts/group.h"
#include "sluice/parts/rank_state.h"
#include "sluice/parts/run_groups.h"
#include "sluice/parts/stage.h"
#include "sluice/program.h"

namespace sluice {

class Checkpoint;
class ShardedParameters;

// What is asked of a run between two steps; the later ones include the earlier.
enum class StepRequest : std::uint8_t { kNone, kSave, kStop };

// What a step came to; the same on every rank. Loss, tokens and request are of REDUCE_LOSS, norms
// of REDUCE_NORM, finite of both.
struct StepReport {
  // Mean over the counted tokens of the step, and the means of the auxiliary losses times their
  // scale.
  double loss = 0;
  std::int64_t tokens = 0;  // counted
  double grad_norm = 0;     // of all parameters, before clipping
  // Of every parameter, in layer order; tied ones once, under the name of the first use. Without a
  // gradient: 0.
  std::vector<std::pair<std::string, double>> parameter_norms;
  bool finite = true;                        // else the update was skipped
  StepRequest request = StepRequest::kNone;  // the strongest that a rank was asked
};

class TrainOps : public StepOps {
 public:
  // Collective over all ranks: names are exchanged once, here. stages: those of this rank. groups:
  // of the program's mesh. requested (may be empty) is asked once a step, at REDUCE_LOSS. Throws
  // Error(kUsage) when some uses of a tied parameter are frozen and others not, Error(kInternal)
  // when a parameter has no single owner or is tied across ranks without a tie group in the
  // program.
  TrainOps(const Program& program, std::vector<Stage*> stages, const RunGroups& groups,
           const OptimizerOptions& options, const DataParallel& data_parallel = {},
           std::function<StepRequest()> requested = {});
  ~TrainOps() override;

  // Losses are taken from here; the executor is made after its StepOps. auxiliary: as
  // ExecutorOptions have them.
  void watch(const Executor& executor, std::vector<AuxiliaryLoss> auxiliary = {});
  // The rate of the step that follows.
  void set_learning_rate(double lr);

  Work<void> unshard(int stage) override;
  void reshard(int stage) override;
  Work<void> reduce_gradients(int stage, std::optional<int> microbatch) override;
  Work<void> reduce_tied(int group) override;
  Work<void> reduce_loss() override;
  Work<void> gather_outputs() override;
  Work<void> reduce_norm() override;
  IdleWork partial_norm(int stage) override;
  // Both throw Error(kInternal) without REDUCE_LOSS and REDUCE_NORM before them. After a step that
  // is not finite they leave all as it is, but for the gradients, which are cleared.
  Work<void> update(int stage) override;
  void optimizer_step() override;

  // Of the last step, complete at its end.
  const StepReport& report() const;
  // Sharded: the state of the blocks that this replica owns.
  const Optimizer& optimizer() const;
  bool shards_state() const;
  // Where it is: whole, as a checkpoint holds it, each tensor on one replica. Collective over the
  // ranks of `groups`, which may be others than those of the steps.
  NamedTensors gather_state(const RunGroups& groups) const;
  // Parameters of which every replica has its own blocks (zero3), or null.
  ShardedParameters* sharded_parameters() const;
  // Fills the optimizer's state, as load_optimizer() does. Returns the parameters without any.
  std::vector<std::string> load_state(const Checkpoint& checkpoint);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Collective over all ranks, after a report that is not finite: runs the step again under watch and
// throws, on every rank, one Error(kNotFinite) naming step, stage, value or parameter, and
// microbatch of the first place: forward before backward; the first replica; the smallest
// microbatch, then the smallest stage; in backward the first microbatch in backward order, then the
// largest stage.
[[noreturn]] void throw_not_finite(Executor& executor, const Group& world, const Program& program,
                                   const StepBatch& batch, const StepReport& report);

}  // namespace sluice
