// Runs one chunk of the model on one rank: forward, whole or split backward, gradients.
//
// Until its backward, a microbatch keeps only the tensors that the backward reads, never an output.
// Weight gradients add up in the order of the backward calls, separately for each shard
// (DataParallel) and each use of a tied parameter. Sums are float32 for half-precision parameters,
// and allocated at the first keep().
//
// Inputs and gradients are copied to the device that the parameters had at construction, but batch
// inputs are not. A Stage belongs to its rank's thread. On CUDA, autograd's device thread writes
// the sums while that thread waits.
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

// Divides the microbatches of a step into shards of the gradients.
struct StageShards {
  OwnShards own;
  // Microbatches per shard, over all replicas; 0: one shard.
  std::int64_t microbatches_per_shard = 0;
  std::vector<int> backwards = {};  // by own shard: how many B or W will run
  friend bool operator==(const StageShards&, const StageShards&) = default;
};

class Stage {
 public:
  // backward: empty for autograd, which works with all modules.
  Stage(int index, Chunk chunk, ChunkBackwardMaker backward = {});
  ~Stage();
  Stage(Stage&&) noexcept;

  int index() const;
  Chunk& chunk();
  // gradient(): undefined if there is none in this step.
  std::vector<ParameterInfo>& parameters();
  at::Tensor& gradient(std::size_t parameter);
  void clear_gradients();

  // Clears the gradients. From then on calls number microbatches over all replicas. Without it all
  // microbatches belong to one shard.
  void set_shards(const StageShards& shards);
  // After the last backward: one sum per largest subtree of the own shards, ascending; undefined if
  // it has no gradients.
  std::vector<at::Tensor> partial_gradients(std::size_t parameter) const;
  // Replaces the partial sums by the total.
  void set_gradient(std::size_t parameter, at::Tensor sum);

  // Lists the parameters again. Precondition: nothing is in flight.
  void to(at::Device device);
  // The same, but meta parameters get memory, filled with NaN until weights are set.
  void to_empty(at::Device device);

  // inputs: by chunk().inputs(); those that require grad get a gradient. Returns the outputs with
  // their graph; send detached copies and release the outputs. Throws Error(kUsage) if a parameter
  // was moved, converted or unfrozen since construction, and like Chunk::forward().
  Values forward(const MicrobatchKey& key, std::vector<at::Tensor> inputs, const Values& batch);
  // Sets the roots of this microbatch's backward.
  void keep(std::int64_t microbatch, const std::vector<at::Tensor>& roots);

  // Instead of keep(), if no backward follows.
  void forget(std::int64_t microbatch);

  // Returns one gradient per input, undefined if it has none. root_gradients: one per root of
  // keep(), undefined if none arrived.
  std::vector<at::Tensor> backward(std::int64_t microbatch, std::vector<at::Tensor> root_gradients);
  std::vector<at::Tensor> backward_input(std::int64_t microbatch,
                                         std::vector<at::Tensor> root_gradients);
  void backward_weight(std::int64_t microbatch);

  // Microbatches without B or W so far.
  std::size_t num_live() const;
  // Holds back weight gradients that backward_input() had to compute until W. Needed if W run in a
  // different order than I.
  void defer_early_weights(bool on);
  // False once a backward_input() had to compute all weight gradients (docs/numbers.md).
  bool splits_backward() const;
  // Frees what was derived from the weights, such as casted copies. clear_gradients() does so too.
  // Precondition: nothing is in flight.
  void end_step();
  // Frees it while microbatches are in flight, because the weights lose their memory. The next
  // forward or backward derives it again.
  void drop_derived();
  // Drops everything in flight, after a failure.
  void reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

using FillStage = std::function<void(Stage&)>;

struct StageOptions {
  // Empty, or if it returns an empty maker: autograd.
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  // Called before the parameters are listed.
  Parallelize parallelize = {};
  AxisNames axis_names = {};
  Mesh mesh = {};
  TensorParallel tensor_parallel = {};
  std::map<Axis, Group> groups = {};
  int replica = 0;
  int share = 0;  // position along axis tp
  // Makes parameters of two or more dimensions on the meta device until RankStages::to_empty().
  // Other tensors get the values that LayerSpec::make sets (docs/library.md). Not needed if make()
  // uses the meta device itself (LayerOptions::device).
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
  // For an Executor. Valid as long as this object, also after it is moved.
  std::vector<Stage*> pointers() const;

  // From the shape functions of all earlier layers; nullopt if one is missing.
  std::optional<std::vector<TensorMeta>> input_metas(int stage, const Values& batch);

  // Throws Error(kUsage) for a parameter on the meta device.
  void draw_weights(std::uint64_t seed);

  // Moves all modules. Call it before an optimizer holds their parameters. Throws Error(kUsage) for
  // a parameter on the meta device.
  void to(at::Device device);
  // The same, but meta parameters get memory to load or draw into. They remain the same tensors,
  // and ties share storage again.
  void to_empty(at::Device device);

 private:
  void share_storage();

  std::vector<std::unique_ptr<Stage>> stages_;
  std::unique_ptr<StageInputs> inputs_;
  Initialization initialization_;
};

// Builds the stages that `partition` places on `rank`. Tied parameters of one rank share storage.
// With Model::fuse the layers of a stage become one, except for those that run twice. Modules stay
// in the mode that LayerSpec::make returns. Throws Error(kUsage) for a partition of another number
// of layers, a value that no layer writes, and like Chunk.
RankStages build_stages(const Model& model, const Partition& partition, int rank,
                        const StageOptions& options = {});

}  // namespace sluice
