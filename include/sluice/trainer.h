// One rank of a training run: its stages, its executor and what happens at the end of a step.
//
// Owns: the modules of this rank's stages and nothing of any other's; the step.
// Does not own: the plan (Partition, Program), data, weights on disk, metrics.
//
// A run: every rank makes a Trainer, loads or draws its weights, and steps; all ranks make the same
// calls in the same order, since most are collective. src/job/run_rank.cpp is the example.
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/model.h"
#include "sluice/model_spec.h"
#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/parts/data_parallel.h"
#include "sluice/parts/executor.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/memory_ledger.h"
#include "sluice/parts/rank_state.h"
#include "sluice/parts/train_ops.h"
#include "sluice/parts/transport.h"

namespace sluice {

class AdapterDirectory;
class Checkpoint;

struct TrainerOptions {
  OptimizerOptions optimizer;
  std::uint64_t seed = 0;
  GradientScale scale;
  std::function<StepRequest()> requested;    // asked once a step on every rank; may be empty
  MemoryLedger* ledger = nullptr;            // without one, memory is reported as 0
  std::vector<ExecutorObserver*> observers;  // of steps; must outlive the trainer
  std::vector<ExecutorObserver*> evaluation_observers;  // of evaluate(); must outlive it, too
  // Mixed precision: forwards and losses run under autocast to this type (kBFloat16).
  // Weights, gradient sums, norms and the update keep the type of the parameters.
  std::optional<at::ScalarType> autocast;
  // As the program was planned (Plan::data_parallel).
  DataParallel data_parallel;
  // state() has the parameters of adapters (lora.h) alone: the rest is kept elsewhere.
  bool saves_adapter_alone = false;
};

// What the last step cost one rank. Bytes are of tensors, 0 without a ledger.
struct RankStats {
  StepTimes times;
  std::int64_t peak_bytes = 0;  // the most that was held at once
};

class Trainer {
 public:
  // Collective over all ranks of the program's mesh, as all that is called so below. References
  // must outlive the trainer. program: verified; its stages are partition's. Makes only the modules
  // of this rank's layers; their weights hold nothing yet. Throws Error(kUsage) for a data_parallel
  // that is not the program's.
  Trainer(const Model& model, const Partition& partition, const Program& program,
          Transport& transport, TrainerOptions options);
  ~Trainer();

  // Weights, and the buffers of modules that have any, by full name: from a checkpoint
  // (load_parameters, load_buffers), or drawn (RankStages::draw_weights; collective): those of
  // replica 0 on every replica. The parameters of adapters (lora.h) are of `adapter`; drawn without
  // one.
  void load_weights(const HfDirectory& directory, const ModelSpec& spec,
                    const AdapterDirectory* adapter = nullptr);
  void draw_weights();
  // Collective. All that state() says, as of the checkpoint's step, whatever layout saved it.
  // Returns the parameters of all ranks that train and have no optimizer state there: it begins at
  // zero. base, of `spec`: the weights that a checkpoint of an adapter alone does not have. Throws
  // Error(kCheckpoint).
  std::vector<std::string> load(const Checkpoint& checkpoint, const HfDirectory* base = nullptr,
                                const ModelSpec* spec = nullptr);

  // Collective. One step at this learning rate. batch: of this rank's replica, which says where it
  // stands among the others (StepBatch::first_microbatch, total_count). Returns the same report on
  // every rank. Throws
  // Error(kInput) for a batch without a counted token, Error(kNotFinite) on every rank after a loss
  // or gradient that is not finite, and whatever Executor::run_step throws.
  const StepReport& step(const StepBatch& batch, double learning_rate);

  // Collective. Forward only, in evaluation mode; any number of microbatches, also ones in which
  // nothing is counted; of several replicas each has its own, or none (first_microbatch gives the
  // order). The losses of all of them in order, the same on every rank. Leaves no trace in the
  // steps around it.
  std::vector<MicrobatchLoss> evaluate(const StepBatch& batch);

  // Of the last step, of this rank's row.
  const StepTimes& times() const;
  // Collective. Of the last step, one entry per rank. times: what this rank has to say of its own.
  std::vector<RankStats> gather_stats(const StepTimes& times);

  // Collective. The stages, of all ranks, that had to compute every weight gradient during I, so
  // far (docs/split-backward.md). The same on every rank, ascending.
  std::vector<int> gather_unsplit_stages();

  // Of this rank's stages, in order; a tied parameter once for each use. Where parameters are
  // sharded (zero3), the tensor is this replica's own blocks, flat.
  std::vector<ParameterInfo> parameters() const;
  // What a checkpoint holds of this rank, by full name: parameters, buffers, optimizer state; of
  // what all replicas hold alike, on replica 0, and so are buffers, which a forward may have
  // changed otherwise on others. To be saved by a Saver; the tensors are the ones that train, not
  // copies.
  // Where optimizer state is sharded: collective, over `world` (of the same ranks; that of the
  // steps where it is not given, which a failure ends); it is gathered into copies, each tensor on
  // the replica that writes it.
  RankState state() const;
  RankState state(const Group& world) const;
  const Optimizer& optimizer() const;
  // The last step whose update the weights of this rank hold, 0 before the first; nothing when an
  // update was begun and failed. Where all ranks say the same after a failure, the weights are
  // those of that step.
  std::optional<std::int64_t> weights_step() const;

  // After a failure: the last instructions of this rank, in the step or evaluation that ran last,
  // and the index of the one of the trainer's program that was running, -1 if none was.
  std::string flight_record() const;
  int current_instruction() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
