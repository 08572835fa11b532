// From a model and its partition to the stages of one rank.
//
// Owns: the one way in which modules come to be. Nothing of a layer that is on another rank is
// made, ever.
// Does not own: the partition (partition.h), weights (a stage's parameters are to be loaded or
// drawn afterwards), what runs the stages (executor.h).
// Thread-safety: pure functions; a rank's stages belong to its thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sluice/model.h"
#include "sluice/partition.h"
#include "sluice/parts/parallelize.h"
#include "sluice/parts/stage.h"

namespace sluice {

struct StageOptions {
  // Of a stage: what carries out its backward; empty, or an empty one: autograd.
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  // Called for each chunk of the rank when its modules are made, before its parameters are listed.
  Parallelize parallelize = {};
  AxisNames axis_names = {};
  Mesh mesh = {};                     // of the run, for the hook
  std::map<Axis, Group> groups = {};  // make_axis_groups(), for the hook
  int replica = 0;                    // of the mesh: the one that the stages are of
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

  // Draws every parameter of every stage, by Model::initialization or as initialize_parameters().
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

// Modules stay in the mode, training or evaluation, in which LayerSpec::make returns them.
// The stages that `partition` places on `rank` of a pipeline; those of tied parameters on one rank
// share storage. With Model::fuse each is one layer, or one for every layer that runs
// twice and for those between two of these; parameters are those of the layers that they were made
// of, in their order. partition: of this model's layers. Throws Error(kUsage) for a
// partition of another number of layers, for values that nobody writes, and what Chunk throws.
RankStages build_stages(const Model& model, const Partition& partition, int rank,
                        const StageOptions& options = {});

}  // namespace sluice
