// One chunk of the model on one rank: forward, backward (whole or split), gradients.
//
// Owns: of a Stage, the chunk, the backwards of microbatches in flight, the sums of gradients;
// RankStages and build_stages(), all stages of a rank.
// Does not own: how a backward is carried out (ChunkBackward); transfers, order (docs/executor.md).
//
// Invariants:
//  1. Between forward and backward of a microbatch the stage keeps what its backward reads, never
//     an output tensor.
//  2. Gradients of weights add up in the order of the backward calls, those of each shard by
//     themselves where there are several (DataParallel), into float32 sums when the parameter is
//     a half-precision type, whose memory is there from the first keep() on.
//  3. Each use of a tied parameter has its own sum.
//  4. Nothing of a microbatch is left after its B, or its I and W.
// Device and dtype are those of the parameters when the stage is made (LayerSpec::make decides):
// inputs and gradients that come from another device are copied to the stage's, batch inputs are
// read as they are. Thread-safety: one rank's thread. On CUDA the engine's device thread writes the
// sums while that thread waits in backward.
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

// How the gradients of a step's microbatches fall into shards.
struct StageShards {
  OwnShards own;
  // Counted among all replicas' microbatches; 0: all are of one shard.
  std::int64_t microbatches_per_shard = 0;
  std::vector<int> backwards = {};  // of each own shard: how many B or W the stage will run
  friend bool operator==(const StageShards&, const StageShards&) = default;
};

class Stage {
 public:
  // backward: empty for that of autograd, which takes any modules.
  Stage(int index, Chunk chunk, ChunkBackwardMaker backward = {});
  ~Stage();
  Stage(Stage&&) noexcept;

  int index() const;
  Chunk& chunk();
  // Chunk parameters, and the gradient sum of each (undefined: no gradient this step).
  std::vector<ParameterInfo>& parameters();
  at::Tensor& gradient(std::size_t parameter);
  void clear_gradients();

  // Until it is called, all microbatches are of one shard. Microbatches are then named by their
  // numbers among those of all replicas. Clears the gradients.
  void set_shards(const StageShards& shards);
  // After the last backward of a step: the sum of each largest subtree of the own shards (one where
  // all microbatches are of one shard: gradient()), ascending; undefined where there is none.
  std::vector<at::Tensor> partial_gradients(std::size_t parameter) const;
  // In place of the partial ones.
  void set_gradient(std::size_t parameter, at::Tensor sum);

  // Moves the modules, and takes their parameters anew. Precondition: nothing is in flight.
  void to(at::Device device);
  // The same; parameters on the meta device get memory, with no numbers in it.
  void to_empty(at::Device device);

  // inputs: one tensor per chunk().inputs(); those that require grad get a gradient in backward.
  // Returns the outputs, in order. They carry the graph: the caller sends detached copies and lets
  // them go (see keep()). Throws Error(kUsage) for a parameter that was moved, converted or
  // unfrozen after the stage was made, and what Chunk::forward throws.
  Values forward(const MicrobatchKey& key, std::vector<at::Tensor> inputs, const Values& batch);
  // Remembers where the backward of this microbatch will start.
  void keep(std::int64_t microbatch, const std::vector<at::Tensor>& roots);

  // Instead of keep(): this microbatch gets no backward (evaluation).
  void forget(std::int64_t microbatch);

  // root_gradients: one per root of keep(); undefined where none arrived. Returns one gradient per
  // input, undefined for inputs without.
  std::vector<at::Tensor> backward(std::int64_t microbatch, std::vector<at::Tensor> root_gradients);
  std::vector<at::Tensor> backward_input(std::int64_t microbatch,
                                         std::vector<at::Tensor> root_gradients);
  void backward_weight(std::int64_t microbatch);

  // Microbatches whose B or W has not run.
  std::size_t num_live() const;
  // Adds the gradients that a backward_input had to compute only during the W of the same
  // microbatch: for programs in which the order of a stage's W differs from that of its I (the sums
  // then follow W).
  void hold_early_weights(bool on);
  // False once a backward_input had to compute every weight gradient itself
  // (docs/split-backward.md).
  bool splits_backward() const;
  // Nothing is in flight any more. Lets go of what was derived from the weights for the step, as
  // under autocast their copies in its type; clear_gradients() does so too.
  void end_step();
  // The weights are about to lose their memory while microbatches are in flight, and what was
  // derived from them does too: the next forward or backward makes it again.
  void drop_derived();
  // Drops everything in flight, after a failure.
  void reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Gives a stage its weights: fills parameters and buffers.
using FillStage = std::function<void(Stage&)>;

struct StageOptions {
  // The maker of the backward of a stage; empty, or an empty one: autograd.
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  // Called for each chunk of the rank when its modules are made, before its parameters are listed.
  Parallelize parallelize = {};
  AxisNames axis_names = {};
  Mesh mesh = {};                       // of the run, for the hook
  TensorParallel tensor_parallel = {};  // what the axis tp of it divides
  std::map<Axis, Group> groups = {};    // of each axis of more than one rank, for the hook
  int replica = 0;                      // of the mesh: the one that the stages are of
  int share = 0;                        // the same along tensor parallelism
  // Parameters of two or more dimensions are made on the meta device, names, shapes and types
  // without memory, of stages of any size, until RankStages::to_empty(); all else has the numbers
  // that LayerSpec::make gives it, which need not know of it (docs/library.md). One that makes them
  // there by itself, as LayerOptions::device says to, needs no option.
  bool deferred = false;
};

class StageInputs;

// The stages of one rank, with the sizes of what enters them.
class RankStages {
 public:
  RankStages(std::vector<std::unique_ptr<Stage>> stages, std::unique_ptr<StageInputs> inputs,
             Initialization initialization = {});
  ~RankStages();
  RankStages(RankStages&&) noexcept;
  RankStages& operator=(RankStages&&) noexcept;

  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }  // ascending
  // For an Executor; valid as long as this is, also after a move.
  std::vector<Stage*> pointers() const;

  // Metas of the values that enter a stage for a microbatch with these batch inputs, from the shape
  // functions of all layers before it; nullopt when one has none. For ExecutorOptions::input_metas.
  std::optional<std::vector<TensorMeta>> input_metas(int stage, const Values& batch);

  // Draws every parameter of every stage, by Model::initialization or LayerSpec::initialize.
  // Throws Error(kUsage) where one is on the meta device.
  void draw_weights(std::uint64_t seed);

  // Moves all modules of all stages. Before anything else knows their parameters, as an optimizer.
  // Throws Error(kUsage) where one is on the meta device.
  void to(at::Device device);
  // The same, and parameters on the meta device get memory, to be loaded or drawn into; the tensors
  // stay the same ones. Those of tied parameters share storage again.
  void to_empty(at::Device device);

 private:
  void share_storage();  // of tied parameters

  std::vector<std::unique_ptr<Stage>> stages_;
  std::unique_ptr<StageInputs> inputs_;
  Initialization initialization_;
};

// The stages that `partition`, which is of this model's layers, places on `rank` of a pipeline;
// tied parameters of one rank share storage. With Model::fuse each is one layer, or one for every
// layer that runs twice and for those between two of these; parameters are those of the layers that
// they were made of, in their order. Modules stay in the mode in which LayerSpec::make returns
// them. Throws Error(kUsage) for a partition of another number of layers, for values that nobody
// writes, and what Chunk throws.
RankStages build_stages(const Model& model, const Partition& partition, int rank,
                        const StageOptions& options = {});

}  // namespace sluice
