// Runs one rank's row of a proven program, chosen by its place along the axis pp. Use it on that
// rank's thread only.
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

// Does one piece of work and returns whether more is left. Empty: no work.
using IdleWork = std::function<bool()>;

// The work on parameters and gradients between the actions, implemented in src/train.
//
// A call that returns a Work is a post (program.h): it starts the work without blocking. The
// executor waits for each Work once, in any order, before the first instruction that uses the
// result or at the row's end. After a failure it drops the Work. Work<void>::done() needs no wait.
//
// An IdleWork runs in pieces while the rank would otherwise wait for a message. The instruction
// that uses its result completes it.
class StepOps {
 public:
  virtual ~StepOps() = default;
  virtual Work<void> unshard(int stage) = 0;
  virtual void reshard(int stage) = 0;
  // microbatch: nullopt for the sum over all.
  virtual Work<void> reduce_gradients(int stage, std::optional<int> microbatch) = 0;
  virtual Work<void> reduce_tied(int group) = 0;
  virtual Work<void> reduce_loss() = 0;
  virtual Work<void> gather_outputs() = 0;
  virtual Work<void> reduce_norm() = 0;
  virtual IdleWork partial_norm(int stage) = 0;
  virtual Work<void> update(int stage) = 0;
  virtual void optimizer_step() = 0;
};

struct MicrobatchAuxiliary {
  std::string name;
  std::int64_t stage = 0, microbatch = 0;  // numbered over all replicas
  double value = 0;
};

struct NonFinite {
  std::int64_t microbatch = -1;  // numbered within this replica
  int stage = -1;
  bool in_forward = false;  // true: an output or the loss; false: a gradient
  std::string name;         // of the value, or full name of the parameter
  // With in_forward: the first parameter of the stage that is not finite, or "".
  std::string parameter;
  at::ScalarType dtype = at::kFloat;  // of the value or, for a gradient, of its parameter
};

struct ExecutorOptions {
  std::uint64_t seed = 0;
  GradientScale scale;
  std::vector<AuxiliaryLoss> auxiliary;  // from Model::auxiliary
  std::size_t flight_recorder_size = 32;
  // Returns metas of the inputs of `stage`. For nullopt, they come from earlier steps or from the
  // message.
  std::function<std::optional<std::vector<TensorMeta>>(int stage, const Values& batch)> input_metas;
  // Shards of gradients over all replicas (DataParallel); 0: one per replica.
  int num_shards = 0;
  std::vector<ExecutorObserver*> observers;  // must outlive the executor
};

class Executor {
 public:
  // rank: in the mesh. stages: this rank's, in any order. program: must have passed verify().
  // References must outlive the executor. Throws Error(kUsage) if the arguments do not fit.
  Executor(const Program& program, int rank, const std::vector<Stage*>& stages,
           Transport& transport, StepOps& ops, LossFunction loss, ExecutorOptions options);
  ~Executor();

  // Runs this rank's row once. On failure it aborts the transport for good, resets the stages and
  // throws an Error that names rank, instruction, stage and microbatch. Failed allocations are
  // kMemory, batches or loss counts that do not fit kUsage, missing messages kPeer. Other
  // sluice::Errors keep their kind, and the rest is kInternal.
  void run_step(const StepBatch& batch);

  // Losses so far in microbatch order, on the last stage's rank only. Complete after the last
  // forward, so reduce_loss() may read them. Blocks on a GPU.
  const std::vector<MicrobatchLoss>& losses() const;
  // Auxiliary losses so far of this rank's stages, by stage, microbatch and layer.
  std::vector<MicrobatchAuxiliary> auxiliary_losses() const;
  const StepTimes& times() const;

  // Repeats the compute and transfers of a step and checks all outputs and gradients. Returns this
  // rank's first non-finite value. Collective over all ranks.
  std::optional<NonFinite> find_non_finite(const StepBatch& batch);

  std::string flight_record() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
