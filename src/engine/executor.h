// Runs one rank's row of a proven program: that of its place along the mesh's axis pp.
//
// Owns: the loop over instructions, mailboxes, the flight recorder of this rank.
// Does not own: the backward of a chunk (Stage), messages on their way (Transport), sharded
// parameters, reductions and the optimizer (StepOps), what else is watched (ExecutorObserver).
// Thread-safety: one Executor per rank, used by that rank's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/layer.h"
#include "sluice/model.h"
#include "sluice/options.h"
#include "sluice/parts/group.h"
#include "sluice/parts/observers.h"
#include "sluice/parts/stage.h"
#include "sluice/parts/transport.h"
#include "sluice/parts/values.h"
#include "sluice/program.h"

namespace sluice {

// Does a piece of some work, and returns whether more is left; empty: there is nothing to do.
using IdleWork = std::function<bool()>;

// The work on parameters and gradients between the actions: declared here, implemented in
// src/train. Every such instruction of the program is called, none is skipped.
//
// A call that returns a Work is a post (program.h): it begins and returns. The executor waits for
// the Work before the first instruction that uses the result, once, at the latest at the end of the
// row, and in any order; after a failure it drops the Work. Work<void>::done(): nothing is to be
// waited for.
//
// An IdleWork is done in pieces whenever the rank would otherwise wait for a message,
// and to its end when its user comes (program.h).
class StepOps {
 public:
  virtual ~StepOps() = default;
  virtual Work<void> unshard(int stage) = 0;  // UNSHARD
  virtual void reshard(int stage) = 0;        // RESHARD
  // REDUCE_GRAD; of one microbatch, or of all.
  virtual Work<void> reduce_gradients(int stage, std::optional<int> microbatch) = 0;
  virtual Work<void> reduce_tied(int group) = 0;  // REDUCE_TIED
  virtual Work<void> reduce_loss() = 0;           // REDUCE_LOSS
  virtual Work<void> gather_outputs() = 0;        // GATHER_OUTPUTS
  virtual Work<void> reduce_norm() = 0;           // REDUCE_NORM
  virtual IdleWork partial_norm(int stage) = 0;   // PARTIAL_NORM
  virtual Work<void> update(int stage) = 0;       // UPDATE
  virtual void optimizer_step() = 0;              // OPTIMIZER_STEP
};

// An auxiliary loss of one microbatch, as its stage computed it.
struct MicrobatchAuxiliary {
  std::string name;
  std::int64_t stage = 0, microbatch = 0;  // among those of all replicas
  double value = 0;
};

// Where a value stopped being finite, found by Executor::find_non_finite.
struct NonFinite {
  std::int64_t microbatch = -1;  // of this rank's replica
  int stage = -1;
  bool in_forward = false;  // an output or the loss; else a gradient
  std::string name;         // value or full parameter name
  // in_forward: the first parameter of the stage that is itself not finite, "" if none.
  std::string parameter;
  at::ScalarType dtype = at::kFloat;  // of the value; of the parameter, where it is a gradient
};

struct ExecutorOptions {
  std::uint64_t seed = 0;
  GradientScale scale;
  std::vector<AuxiliaryLoss> auxiliary;  // Model::auxiliary
  std::size_t flight_recorder_size = 32;
  // Metas of what enters `stage` for a microbatch with these batch inputs; nullopt: unknown (then
  // from the memo of earlier steps, else from the message itself).
  std::function<std::optional<std::vector<TensorMeta>>(int stage, const Values& batch)> input_metas;
  // Shards of gradients, of all replicas of the mesh (DataParallel); 0: one a replica.
  int num_shards = 0;
  std::vector<ExecutorObserver*> observers;  // must outlive the executor
};

class Executor {
 public:
  // rank: of the mesh. stages: those of its row, any order. transport: this rank's, of as many as
  // the mesh has. The program must have passed verify(); one that is forward_only builds no graph.
  // References must outlive the executor. Throws Error(kUsage) for stages or a transport of another
  // rank, and for shards that do not fit replicas and microbatches.
  Executor(const Program& program, int rank, const std::vector<Stage*>& stages,
           Transport& transport, StepOps& ops, LossFunction loss, ExecutorOptions options);
  ~Executor();

  // Runs this rank's row once. Throws Error naming rank, instruction, stage and microbatch, after
  // aborting the transport; the stages are reset then. The kind is that of the sluice::Error that
  // was thrown inside, kMemory for a failed allocation, kUsage for a batch that does not fit the
  // program or a loss that counts otherwise than the batch, kPeer for a message that did not come,
  // else kInternal. An aborted transport stays so: to try again, make all anew.
  void run_step(const StepBatch& batch);

  // Losses of the step on the rank of the last stage (in order of microbatches), else empty; during
  // the step, those that are known. Complete from the last forward on, so StepOps::reduce_loss may
  // read them. On a GPU the call waits for them.
  const std::vector<MicrobatchLoss>& losses() const;
  // Auxiliary losses of the stages of this rank: by stage, in the order of its layers, by
  // microbatch; during the step, those that are known.
  std::vector<MicrobatchAuxiliary> auxiliary_losses() const;
  const StepTimes& times() const;

  // Runs the compute and transfers of the step again with every output and gradient checked, under
  // the same observers, without reductions or update; returns the first place on this rank, if any.
  // Collective: every rank calls it.
  std::optional<NonFinite> find_non_finite(const StepBatch& batch);

  // The last actions of this rank, newest last, one a line.
  std::string flight_record() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
