// Runs one chunk of the model on one rank: forward, whole or split backward, gradients.
//
// Until its backward, a microbatch holds only the tensors that the backward reads, no unread
// output. Weight gradients add up in the order of the backward calls, separately for each shard
// (DataParallel) and each use of a tied parameter. The sums are float32 for half-precision
// parameters and allocated at the first keep().
//
// Received inputs and gradients are copied to the device of the parameters at construction, but
// batch inputs are not. A Stage belongs to its rank's thread. On CUDA, autograd's device thread
// adds while the rank's thread waits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sluice/model.h"
#include "sluice/partition.h"
#include "sluice/parts/chunk.h"
#include "sluice/parts/run_options.h"

namespace sluice {

struct StageShards {
  OwnShards own;
  // Microbatches in one gradient shard (a partial sum of the gradients), counted over all replicas.
  // 0: all microbatches form one shard.
  std::int64_t microbatches_per_shard = 0;
  std::vector<int> backwards = {};  // number of B or W in each of this rank's shards
  friend bool operator==(const StageShards&, const StageShards&) = default;
};

class Stage {
 public:
  // An empty `backward` uses autograd.
  Stage(int index, Chunk chunk, ChunkBackwardMaker backward = {});
  ~Stage();
  Stage(Stage&&) noexcept;

  int index() const;
  Chunk& chunk();
  // gradient() is undefined if this step has none.
  std::vector<ParameterInfo>& parameters();
  at::Tensor& gradient(std::size_t parameter);
  void clear_gradients();

  // Clears the gradients and sets the shards to sum (default: one shard). Later calls number
  // microbatches over all replicas.
  void set_shards(const StageShards& shards);
  // Returns, after the last backward, one sum per largest subtree (SumOrder::kTree) of this rank's
  // shards, in order. A sum without gradients is undefined.
  std::vector<at::Tensor> partial_gradients(std::size_t parameter) const;
  // Replaces the partial sums by `sum`, the total of all ranks.
  void set_gradient(std::size_t parameter, at::Tensor sum);

  // Moves the modules and drops the gradients. Precondition: no microbatch is in flight.
  void to(at::Device device);
  // Moves like to(), but parameters on the meta device get memory, filled with NaN until weights
  // are set.
  void to_empty(at::Device device);

  // Takes inputs in the order of chunk().inputs(). Those that require grad get a gradient. Returns
  // the outputs with their graph, so send detached copies and release the outputs. Throws like
  // Chunk::forward(), and Error(kUsage) if a parameter was moved, converted or unfrozen.
  Values forward(const MicrobatchKey& key, std::vector<at::Tensor> inputs, const Values& batch);
  // Sets the roots of this microbatch's backward.
  void keep(std::int64_t microbatch, const std::vector<at::Tensor>& roots);

  // Call it instead of keep() if no backward follows.
  void forget(std::int64_t microbatch);

  // Takes a gradient per root of keep() and returns one per input, undefined for none.
  std::vector<at::Tensor> backward(std::int64_t microbatch, std::vector<at::Tensor> root_gradients);
  std::vector<at::Tensor> backward_input(std::int64_t microbatch,
                                         std::vector<at::Tensor> root_gradients);
  void backward_weight(std::int64_t microbatch);

  std::size_t num_live() const;
  // Whether weight gradients that backward_input() had to compute are added only in W. Needed if W
  // run in another order than I.
  void defer_early_weights(bool on);
  // False once backward_input() had to compute all weight gradients (docs/numbers.md).
  bool splits_backward() const;
  // Frees tensors derived from the weights, such as casted copies. clear_gradients() does the same.
  // Precondition: no microbatch is in flight.
  void end_step();
  // Frees tensors derived from the weights while microbatches are in flight, because RESHARD frees
  // the weights' memory. The next forward or backward derives the tensors again.
  void drop_derived();
  // Drops all microbatches in flight.
  void reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

using FillStage = std::function<void(Stage&)>;

struct StageOptions {
  // If empty, or if it returns an empty maker, stages use autograd.
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  Parallelize parallelize = {};
  AxisNames axis_names = {};
  Mesh mesh = {};
  TensorParallel tensor_parallel = {};
  std::map<Axis, Group> groups = {};
  int replica = 0;
  int share = 0;  // position along axis tp
  // Makes parameters of two or more dimensions on the meta device until RankStages::to_empty(),
  // unless make() uses that device itself. Other tensors get the values from make()
  // (docs/library.md).
  bool deferred = false;
};

class StageInputs;

class RankStages {
 public:
  RankStages(std::vector<std::unique_ptr<Stage>> stages, std::unique_ptr<StageInputs> inputs,
             Initialization initialization = {});
  ~RankStages();
  RankStages(RankStages&&) noexcept;
  RankStages& operator=(RankStages&&) noexcept;

  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }  // ascending
  // The pointers stay valid when this object is moved.
  std::vector<Stage*> pointers() const;

  // Returns the shapes and dtypes of a stage's inputs. None if an earlier layer has no shape
  // function.
  std::optional<std::vector<TensorMeta>> input_metas(int stage, const Values& batch);

  // Throws Error(kUsage) for a parameter on the meta device.
  void draw_weights(std::uint64_t seed);

  // Call it before an optimizer holds the parameters. Throws Error(kUsage) for a parameter on the
  // meta device.
  void to(at::Device device);
  // Moves like to(), but parameters on the meta device get memory to load or draw into. They remain
  // the same tensors, and tied parameters share storage again.
  void to_empty(at::Device device);

 private:
  void share_storage();

  std::vector<std::unique_ptr<Stage>> stages_;
  std::unique_ptr<StageInputs> inputs_;
  Initialization initialization_;
};

// Builds the stages that `partition` places on `rank`. Tied parameters of one rank share storage.
// With Model::fuse the layers of a stage become one, except recomputed layers. Modules keep their
// mode (train or eval). Throws like Chunk, and Error(kUsage) for a partition of another number of
// layers or a value that no layer writes.
RankStages build_stages(const Model& model, const Partition& partition, int rank,
                        const StageOptions& options = {});

}  // namespace sluice
