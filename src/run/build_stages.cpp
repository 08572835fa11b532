#include "sluice/parts/build_stages.h"

#include <algorithm>
#include <utility>

#include "run/stage_inputs.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

void require_layers(const Model& model, const Partition& partition) {
  std::size_t num_layers = 0;
  for (const StageContent& stage : partition.stages) num_layers += stage.layers.size();
  if (num_layers == model.layers.size()) return;
  throw Error(ErrorKind::kUsage,
              {.what = "the partition has " + std::to_string(num_layers) +
                       " layers, but the model has " + std::to_string(model.layers.size()),
               .where = "build_stages",
               .remedy = "give the partition that was made for this model"});
}

std::vector<int> first_layers(const Partition& partition) {
  std::vector<int> first;
  for (const StageContent& stage : partition.stages) first.push_back(stage.layers.front());
  return first;
}

// The values that enter every stage, and after the last entry those that leave the model.
std::vector<Names> values_at_cuts(const Model& model, const std::vector<int>& first_layers) {
  const std::vector<int> cuts(first_layers.begin() + 1, first_layers.end());
  std::vector<Names> values(1);  // only the batch's inputs enter the first stage
  for (Names& crossing : crossing_values(model.layers, cuts, model.inputs, model.outputs))
    values.push_back(std::move(crossing));
  values.push_back(model.outputs);
  return values;
}

Chunk make_chunk(const Model& model, const StageContent& stage, Names inputs, Names outputs) {
  std::vector<LayerSpec> layers;
  for (const int layer : stage.layers) {
    layers.push_back(model.layers[layer]);
    const std::vector<int>& twice = stage.recomputed;
    if (std::find(twice.begin(), twice.end(), layer) != twice.end()) layers.back().recompute = true;
  }
  return {std::move(layers), stage.layers.front(), std::move(inputs), std::move(outputs)};
}

}  // namespace

RankStages::RankStages(std::vector<std::unique_ptr<Stage>> stages,
                       std::unique_ptr<StageInputs> inputs)
    : stages_(std::move(stages)), inputs_(std::move(inputs)) {}
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
  for (const auto& stage : stages_) initialize_parameters(stage->chunk(), seed);
}

RankStages build_stages(const Model& model, const Partition& partition, int rank,
                        const StageOptions& options) {
  require_layers(model, partition);
  const std::vector<int> first = first_layers(partition);
  std::vector<Names> values = values_at_cuts(model, first);
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<Chunk*> chunks;
  for (std::size_t s = 0; s < partition.stages.size(); ++s) {
    const StageContent& content = partition.stages[s];
    if (content.rank != rank) continue;
    Chunk chunk = make_chunk(model, content, values[s], values[s + 1]);
    stages.push_back(std::make_unique<Stage>(
        content.stage, std::move(chunk),
        options.backward_of ? options.backward_of(content.stage) : ChunkBackwardMaker()));
    chunks.push_back(&stages.back()->chunk());
  }
  share_tied_storage(chunks);
  values.pop_back();
  return {std::move(stages), std::make_unique<StageInputs>(model.layers, first, std::move(values))};
}

}  // namespace sluice
