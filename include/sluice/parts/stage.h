// One chunk of the model on one rank: forward, backward (whole or split), gradients.
//
// Invariants:
//  1. Between forward and backward of a microbatch the stage keeps the tensors that its backward
//     reads, never an output tensor.
//  2. Gradients of weights add up in the order of the backward calls, for each shard separately
//     where there are several (DataParallel). The sums are float32 if the parameter has a
//     half-precision type; their memory exists from the first keep() on.
//  3. Each use of a tied parameter has its own sum.
//  4. Nothing of a microbatch is kept after its B, or its I and W.
// Device and dtype are those of the parameters when the stage is made (LayerSpec::make decides):
// inputs and gradients from another device are copied to the stage's, batch inputs are read as they
// are. Thread-safety: one rank's thread. On CUDA the autograd engine's device thread writes the
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

// The shards into which the gradients of a step's microbatches fall.
struct StageShards {
  OwnShards own;
  // Microbatches of a shard, which number those of all replicas; 0: there is one shard.
  std::int64_t microbatches_per_shard = 0;
  std::vector<int> backwards = {};  // number of B or W that the stage will run for each own shard
  friend bool operator==(const StageShards&, const StageShards&) = default;
};

class Stage {
 public:
  // backward: empty for autograd's, which takes any modules.
  Stage(int index, Chunk chunk, ChunkBackwardMaker backward = {});
  ~Stage();
  Stage(Stage&&) noexcept;

  int index() const;
  Chunk& chunk();
  // The chunk's parameters, and the gradient sum of each (undefined: no gradient in this step).
  std::vector<ParameterInfo>& parameters();
  at::Tensor& gradient(std::size_t parameter);
  void clear_gradients();

  // Sets the shards, and clears the gradients. Until it is called, all microbatches belong to one
  // shard; afterwards calls name microbatches by their numbers among those of all replicas.
  void set_shards(const StageShards& shards);
  // After the last backward of a step: the sum of each largest subtree of the own shards, ascending
  // (with a single shard one sum, gradient()); undefined where there is none.
  std::vector<at::Tensor> partial_gradients(std::size_t parameter) const;
  // Replaces the partial sums by the whole one.
  void set_gradient(std::size_t parameter, at::Tensor sum);

  // Moves the modules, and lists their parameters again. Precondition: nothing is in flight.
  void to(at::Device device);
  // The same; parameters on the meta device get memory that holds NaN until weights fill it.
  void to_empty(at::Device device);

  // inputs: one tensor per chunk().inputs(); those that require grad get a gradient in backward.
  // Returns the outputs, in order. They carry the graph: the caller sends detached copies and
  // releases the outputs (see keep()). Throws Error(kUsage) for a parameter that was moved,
  // converted or unfrozen after the stage was made, and what Chunk::forward throws.
  Values forward(const MicrobatchKey& key, std::vector<at::Tensor> inputs, const Values& batch);
  // Remembers the roots from which the backward of this microbatch will start.
  void keep(std::int64_t microbatch, const std::vector<at::Tensor>& roots);

  // Instead of keep(): this microbatch gets no backward (evaluation).
  void forget(std::int64_t microbatch);

  // root_gradients: one per root of keep(); undefined where none arrived. Returns one gradient per
  // input, undefined for inputs without one.
  std::vector<at::Tensor> backward(std::int64_t microbatch, std::vector<at::Tensor> root_gradients);
  std::vector<at::Tensor> backward_input(std::int64_t microbatch,
                                         std::vector<at::Tensor> root_gradients);
  void backward_weight(std::int64_t microbatch);

  // Number of microbatches whose B or W has not run.
  std::size_t num_live() const;
  // Adds the gradients that a backward_input had to compute only during the W of the same
  // microbatch: for programs in which the order of a stage's W differs from that of its I (the sums
  // then follow W).
  void hold_early_weights(bool on);
  // False once a backward_input had to compute every weight gradient itself
  // (docs/numbers.md).
  bool splits_backward() const;
  // Ends the step, when nothing is in flight: releases what was derived from the weights for it,
  // such as their copies under autocast; clear_gradients() does so too.
  void end_step();
  // Called before the weights lose their memory while microbatches are in flight: drops what was
  // derived from them, which the next forward or backward makes again.
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
  // The maker of the backward of a stage; empty, or if it returns an empty maker: autograd.
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  // Called for each chunk of the rank when its modules are made, before its parameters are listed.
  Parallelize parallelize = {};
  AxisNames axis_names = {};
  Mesh mesh = {};                       // mesh of the run, for the hook
  TensorParallel tensor_parallel = {};  // the division along its axis tp
  std::map<Axis, Group> groups = {};    // group of each axis with several ranks, for the hook
  int replica = 0;                      // the replica of the mesh that has the stages
  int share = 0;                        // the share of tensor parallelism that has them
  // True: parameters of two or more dimensions are made on the meta device, with names, shapes and
  // types but no memory, until RankStages::to_empty(); all else has the numbers that
  // LayerSpec::make gives it, which need not know of this (docs/library.md). A make() that uses the
  // meta device by itself (LayerOptions::device) does not need it.
  bool deferred = false;
};

class StageInputs;

// The stages of one rank, with the sizes of the values that enter them.
class RankStages {
 public:
  RankStages(std::vector<std::unique_ptr<Stage>> stages, std::unique_ptr<StageInputs> inputs,
             Initialization initialization = {});
  ~RankStages();
  RankStages(RankStages&&) noexcept;
  RankStages& operator=(RankStages&&) noexcept;

  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }  // ascending
  // The stages for an Executor; valid as long as this object, also after it is moved.
  std::vector<Stage*> pointers() const;

  // Metas of the values that enter a stage for a microbatch with these batch inputs, from the shape
  // functions of all layers before it; nullopt when one has none. For ExecutorOptions::input_metas.
  std::optional<std::vector<TensorMeta>> input_metas(int stage, const Values& batch);

  // Draws every parameter of every stage, by Model::initialization or LayerSpec::initialize.
  // Throws Error(kUsage) where one is on the meta device.
  void draw_weights(std::uint64_t seed);

  // Moves all modules of all stages. Call it before anything else, such as an optimizer, holds
  // their parameters. Throws Error(kUsage) where one is on the meta device.
  void to(at::Device device);
  // The same, and parameters on the meta device get memory, to be loaded or drawn into; they remain
  // the same tensors. Tied parameters share storage again.
  void to_empty(at::Device device);

 private:
  void share_storage();  // of tied parameters

  std::vector<std::unique_ptr<Stage>> stages_;
  std::unique_ptr<StageInputs> inputs_;
  Initialization initialization_;
};

// The stages that `partition`, a partition of this model's layers, places on `rank` of a pipeline;
// tied parameters of one rank share storage. With Model::fuse each stage is one layer, or one for
// every layer that runs twice and one for the layers between two of these; their parameters are
// those of the fused layers, in order. Modules stay in the mode in which LayerSpec::make returns
// them. Throws Error(kUsage) for a partition of another number of layers, for values that nobody
// writes, and what Chunk throws.
RankStages build_stages(const Model& model, const Partition& partition, int rank,
                        const StageOptions& options = {});

}  // namespace sluice
