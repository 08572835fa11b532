// Runs one rank's row (list of instructions) of a verified program. Use an executor only on its
// rank's thread.
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

// Does one piece of work and returns whether more is left. May be empty.
using IdleWork = std::function<bool()>;

// Carries out reductions, updates and other instructions without compute or transfers. Implemented
// in src/train.
//
// A function that returns a Work starts an operation without blocking. The executor waits for each
// Work once, in any order, before the first instruction that uses the result or at the step's end.
// After a failure it drops the Work.
//
// An IdleWork runs in pieces while the rank would otherwise wait for a message. The instruction
// that uses the result completes it.
class StepOps {
 public:
  virtual ~StepOps() = default;
  virtual Work<void> unshard(int stage) = 0;
  virtual void reshard(int stage) = 0;
  // microbatch: nullopt for the gradients summed over all microbatches.
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
  bool in_forward = false;  // in an output or the loss, otherwise in a gradient
  std::string name;         // of the value, or of the gradient's parameter
  // If in_forward: the stage's first parameter that is not finite, or "".
  std::string parameter;
  at::ScalarType dtype = at::kFloat;  // of the value or the gradient's parameter
};

struct ExecutorOptions {
  std::uint64_t seed = 0;
  GradientScale scale;
  std::vector<AuxiliaryLoss> auxiliary;
  std::size_t flight_recorder_size = 32;
  // Returns the metas (shapes and dtypes) of a stage's inputs. If nullopt, earlier steps or the
  // message give them.
  std::function<std::optional<std::vector<TensorMeta>>(int stage, const Values& batch)> input_metas;
  // Number of gradient shards (DataParallel) over all replicas. 0: one per replica.
  int num_shards = 0;
  std::vector<ExecutorObserver*> observers;  // must outlive the executor
};

class Executor {
 public:
  // rank: in the mesh. stages: all stages of this rank. program: must have passed verify().
  // References must outlive the executor. Throws Error(kUsage) if the arguments do not fit
  // together.
  Executor(const Program& program, int rank, const std::vector<Stage*>& stages,
           Transport& transport, StepOps& ops, LossFunction loss, ExecutorOptions options);
  ~Executor();

  // Runs this rank's instructions once. On failure, aborts the transport for good, resets the
  // stages and throws an Error that names rank, instruction, stage and microbatch. The kind is
  // kMemory for failed allocations, kUsage for batches or loss counts that do not fit, and kPeer
  // for missing messages. Other sluice::Errors keep their kind. The rest is kInternal.
  void run_step(const StepBatch& batch);

  // Losses so far in microbatch order, only on the last stage's rank. Complete after the last
  // forward. Blocks on a GPU.
  const std::vector<MicrobatchLoss>& losses() const;
  // Auxiliary losses so far of this rank, by stage, microbatch and layer.
  std::vector<MicrobatchAuxiliary> auxiliary_losses() const;
  const StepTimes& times() const;

  // Repeats a step without reductions and updates, and checks all outputs and gradients. Returns
  // this rank's first non-finite value. Collective over all ranks.
  std::optional<NonFinite> find_non_finite(const StepBatch& batch);

  std::string flight_record() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
