#include "sluice/parts/stage.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/format.h"
#include "engine/parallelize.h"
#include "engine/replicas.h"
#include "layer/auxiliary_values.h"
#include "layer/crossing.h"
#include "layer/deferred.h"
#include "layer/initialize_chunks.h"
#include "layer/owner_of.h"
#include "parallel/expert_group.h"
#include "parallel/slice_group_scope.h"
#include "plan/crossing.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

void require_layers(const Model& model, const Partition& partition) {
  std::size_t num_layers = 0;
  for (const StageContent& stage : partition.stages) num_layers += stage.layers.size();
  if (num_layers == model.layers.size()) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("the partition has {} layers, but the model has {}", num_layers,
                                 model.layers.size()),
               .where = "build_stages",
               .remedy = "give the partition that was made for this model"});
}

std::vector<int> first_layers(const Partition& partition) {
  std::vector<int> first;
  for (const StageContent& stage : partition.stages) first.push_back(stage.layers.front());
  return first;
}

Names values_everywhere(const Model& model) {
  Names names = model.inputs;
  for (const LayerSpec& layer : model.free_layers)
    names.insert(names.end(), layer.writes.begin(), layer.writes.end());
  return names;
}

std::vector<LayerSpec> free_layers_of(const Model& model, const std::vector<LayerSpec>& layers,
                                      const Names& outputs) {
  std::set<std::string> read(outputs.begin(), outputs.end());
  for (const LayerSpec& layer : layers) read.insert(layer.reads.begin(), layer.reads.end());
  std::vector<LayerSpec> needed;
  const auto writes = [](const LayerSpec& layer, const std::string& name) {
    return std::find(layer.writes.begin(), layer.writes.end(), name) != layer.writes.end();
  };
  for (const int i : needed_free_layers(model.free_layers, std::move(read), writes)) {
    needed.push_back(model.free_layers[static_cast<std::size_t>(i)]);
    needed.back().num_layers = 0;
  }
  return needed;
}

// Returns the names of the values that enter each stage, then of the model's outputs.
std::vector<Names> values_at_cuts(const Model& model, const std::vector<int>& first_layers) {
  const std::vector<int> cuts(first_layers.begin() + 1, first_layers.end());
  std::vector<Names> values(1);
  for (Names& crossing :
       values_crossing_cuts(model.layers, cuts, values_everywhere(model), model.outputs))
    values.push_back(std::move(crossing));
  values.push_back(model.outputs);
  return values;
}

// A fused module may register parameters in another order than the layers'.
void sort_by_layer(Chunk& chunk, const std::vector<LayerSpec>& layers) {
  std::vector<ParameterInfo>& parameters = chunk.parameters();
  for (ParameterInfo& parameter : parameters) {
    const int owner = owner_of(parameter.name, layers);
    if (owner >= 0) parameter.layer = chunk.first_layer() + owner;
  }
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const auto& a, const auto& b) { return a.layer < b.layer; });
}

// Splits layers into groups to fuse. A recomputed layer is a group of its own.
std::vector<std::vector<LayerSpec>> pieces(const std::vector<LayerSpec>& layers) {
  std::vector<std::vector<LayerSpec>> pieces;
  for (const LayerSpec& layer : layers) {
    if (pieces.empty() || layer.recompute || pieces.back().back().recompute) pieces.emplace_back();
    pieces.back().push_back(layer);
  }
  return pieces;
}

std::vector<LayerSpec> fused(const Model& model, const std::vector<LayerSpec>& layers, int first,
                             const Names& outputs) {
  std::vector<LayerSpec> run;
  int behind = first;
  for (const std::vector<LayerSpec>& piece : pieces(layers)) {
    const std::size_t in_piece = piece.size();
    behind += static_cast<int>(in_piece);
    Names leaving = outputs;
    if (behind < first + static_cast<int>(layers.size())) {
      leaving =
          values_crossing_cuts(model.layers, {behind}, values_everywhere(model), model.outputs)
              .front();
      for (const std::string& name : outputs)
        if (is_auxiliary(model, name)) leaving.push_back(name);
    }
    LayerSpec layer = model.fuse(piece, leaving);
    layer.continues = !run.empty();
    layer.num_layers = static_cast<int>(in_piece);
    run.push_back(std::move(layer));
  }
  return run;
}

LocalChunk local_chunk(const Partition& partition, const StageContent& stage,
                       const StageOptions& options) {
  LocalChunk chunk;
  chunk.stage = stage.stage;
  chunk.num_stages = partition.num_stages();
  chunk.is_first = stage.stage == 0;
  chunk.is_last = stage.stage + 1 == chunk.num_stages;
  const bool has_others = num_replicas(options.mesh) > 1 || options.mesh.size(Axis::kTp) > 1;
  const int rank =
      has_others ? rank_at(options.mesh, stage.rank, options.replica, options.share) : stage.rank;
  chunk.rank = rank;
  chunk.world_mesh = world_mesh(options.mesh, rank, options.axis_names, options.groups);
  chunk.expert_mesh = expert_mesh(options.mesh, rank, options.axis_names, options.groups);
  chunk.axis_names = options.axis_names;
  chunk.tensor_parallel = options.tensor_parallel;
  return chunk;
}

Chunk make_chunk(const Model& model, const Partition& partition, const StageContent& stage,
                 Names inputs, Names outputs, const StageOptions& options) {
  for (std::string& name : auxiliary_values(model, stage.layers))
    outputs.push_back(std::move(name));
  std::vector<LayerSpec> layers;
  for (const int layer : stage.layers) {
    layers.push_back(model.layers[layer]);
    const std::vector<int>& twice = stage.recomputed;
    if (std::find(twice.begin(), twice.end(), layer) != twice.end()) layers.back().recompute = true;
  }
  std::vector<LayerSpec> run =
      model.fuse ? fused(model, layers, stage.layers.front(), outputs) : layers;
  std::vector<LayerSpec> free = free_layers_of(model, run, outputs);
  run.insert(run.begin(), std::make_move_iterator(free.begin()),
             std::make_move_iterator(free.end()));
  if (options.deferred) {
    for (LayerSpec& layer : run) {
      if (!layer.make) continue;
      layer.make = [make = std::move(layer.make), name = layer.name,
                    drawn = layer.initialize ? Drawn::kNone : Drawn::kByDefault] {
        return make_deferred(make, name, drawn);
      };
    }
  }
  const auto tp = options.groups.find(Axis::kTp);
  const SliceGroup slices(tp == options.groups.end() ? Group() : tp->second,
                          options.tensor_parallel);
  const detail::SliceGroupScope scope(slices);
  const auto ep = options.groups.find(Axis::kEp);
  const detail::ExpertGroup experts(ep == options.groups.end() ? Group() : ep->second);
  const detail::ExpertGroupScope scope_of_experts(experts);
  if (options.parallelize)
    parallelize(run, local_chunk(partition, stage, options), options.parallelize);
  Chunk chunk(std::move(run), stage.layers.front(), std::move(inputs), std::move(outputs));
  if (model.fuse) sort_by_layer(chunk, layers);
  return chunk;
}

// Removes shape functions, because with sequence parallelism a rank has only part of the sequence
// between layers. Sizes are then sent with the messages.
Model with_sizes_of_rows(const Model& model, const TensorParallel& how) {
  Model of_rank = model;
  if (how.degree > 1 && how.sequence)
    for (LayerSpec& layer : of_rank.layers) layer.shapes = nullptr;
  return of_rank;
}

void require_memory(const std::vector<std::unique_ptr<Stage>>& stages, const std::string& call) {
  for (const auto& stage : stages) {
    for (const ParameterInfo& parameter : stage->parameters()) {
      if (!parameter.tensor.is_meta()) continue;
      throw Error(ErrorKind::kUsage, {.what = "parameter '" + parameter.name +
                                              "' is on the meta device, without memory",
                                      .where = call,
                                      .remedy = "call RankStages::to_empty(device) before"});
    }
  }
}

}  // namespace

// Computes the shapes of a stage's inputs from the shape functions of earlier layers.
class StageInputs {
 public:
  StageInputs(const Model& model, const std::vector<int>& first_layers, std::vector<Names> inputs) {
    for (std::size_t s = 0; s < first_layers.size(); ++s) {
      std::vector<LayerSpec> layers(model.layers.begin(), model.layers.begin() + first_layers[s]);
      std::vector<LayerSpec> run = free_layers_of(model, layers, {});
      run.insert(run.end(), layers.begin(), layers.end());
      for (LayerSpec& layer : run) {
        layer.make = nullptr;
        layer.ties.clear();
      }
      before_.emplace_back(std::move(run), 0, Names(), std::move(inputs[s]));
    }
  }

  // Returns nullopt if an earlier layer has no shape function.
  std::optional<std::vector<TensorMeta>> metas(int stage, const Values& batch) {
    std::vector<TensorMeta> batch_metas;
    for (const auto& [name, tensor] : batch) batch_metas.push_back(meta_of(tensor));
    Known& known = last_[stage];
    if (known.batch != batch_metas) {
      known = {std::move(batch_metas), before_.at(stage).output_metas({}, batch)};
    }
    return known.metas;
  }

 private:
  struct Known {
    std::vector<TensorMeta> batch;
    std::optional<std::vector<TensorMeta>> metas;
  };
  std::vector<Chunk> before_;
  std::map<int, Known> last_;
};

RankStages::RankStages(std::vector<std::unique_ptr<Stage>> stages,
                       std::unique_ptr<StageInputs> inputs, Initialization initialization)
    : stages_(std::move(stages)),
      inputs_(std::move(inputs)),
      initialization_(std::move(initialization)) {}
RankStages::~RankStages() = default;
RankStages::RankStages(RankStages&&) noexcept = default;
RankStages& RankStages::operator=(RankStages&&) noexcept = default;

std::vector<Stage*> RankStages::pointers() const {
  std::vector<Stage*> pointers;
  for (const auto& stage : stages_) pointers.push_back(stage.get());
  return pointers;
}

std::optional<std::vector<TensorMeta>> RankStages::input_metas(int stage, const Values& batch) {
  return inputs_->metas(stage, batch);
}

void RankStages::draw_weights(std::uint64_t seed) {
  require_memory(stages_, "RankStages::draw_weights");
  std::vector<Chunk*> chunks;
  for (const auto& stage : stages_) chunks.push_back(&stage->chunk());
  if (initialization_.is_given()) {
    initialize_chunks(initialization_, chunks, seed);
  } else {
    for (Chunk* chunk : chunks) initialize_parameters(*chunk, seed);
  }
}

void RankStages::to(at::Device device) {
  require_memory(stages_, "RankStages::to");
  for (const auto& stage : stages_) stage->to(device);
  share_storage();
}

void RankStages::to_empty(at::Device device) {
  for (const auto& stage : stages_) stage->to_empty(device);
  share_storage();
}

void RankStages::share_storage() {
  std::vector<Chunk*> chunks;
  for (const auto& stage : stages_) chunks.push_back(&stage->chunk());
  share_tied_storage(chunks);
}

RankStages build_stages(const Model& single_rank_config, const Partition& partition, int rank,
                        const StageOptions& options) {
  const Model model = with_sizes_of_rows(single_rank_config, options.tensor_parallel);
  require_layers(model, partition);
  require_auxiliary(model);
  const std::vector<int> first = first_layers(partition);
  std::vector<Names> values = values_at_cuts(model, first);
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<Chunk*> chunks;
  for (std::size_t s = 0; s < partition.stages.size(); ++s) {
    const StageContent& content = partition.stages[s];
    if (content.rank != rank) continue;
    Chunk chunk = make_chunk(model, partition, content, values[s], values[s + 1], options);
    stages.push_back(std::make_unique<Stage>(
        content.stage, std::move(chunk),
        options.backward_of ? options.backward_of(content.stage) : ChunkBackwardMaker()));
    chunks.push_back(&stages.back()->chunk());
  }
  share_tied_storage(chunks);
  values.pop_back();
  return {std::move(stages), std::make_unique<StageInputs>(model, first, std::move(values)),
          model.initialization};
}

}  // namespace sluice
