#include "config/model_kinds.h"

#include <iterator>
#include <utility>

#include "archive/graph_kind.h"
#include "config/key_table.h"
#include "config/origins.h"
#include "family/family_kind.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using KindRow = const ModelKind& (*)();
constexpr KindRow kKinds[] = {graph_kind, family_kind};

// `name` is a key of [model].
bool is_given(const RunConfig& config, std::string_view name) {
  for (const Key& key : key_table())
    if (key.full_name() == "model." + std::string(name))
      return key.get(config) != key.default_value();
  return false;
}

struct UsedFeature {
  ModelFeature feature;
  bool is_used;
  const char* key;
};

std::vector<UsedFeature> features_of(const RunConfig& config) {
  const PipelineOptions& pipeline = config.parallelism.pipeline;
  const bool by_degree = is_set(config, "parallelism.tensor_parallel_degree");
  return {
      {ModelFeature::kConfigFile, !config.model.config.empty(), "model.config"},
      {ModelFeature::kNewAdapter, config.lora.rank > 0, "lora.rank"},
      {ModelFeature::kStoredAdapter, !config.model.adapter.empty(), "model.adapter"},
      {ModelFeature::kPackedRows, config.data.pack, "data.pack"},
      {ModelFeature::kZero3, pipeline.data_parallel.zero3, "parallelism.zero3"},
      {ModelFeature::kSlices, pipeline.tensor_parallel.num_slices() > 1,
       by_degree ? "parallelism.tensor_parallel_degree" : "parallelism.tensor_parallel_slices"}};
}

}  // namespace

const ModelKind& kind_of(const RunConfig& config) {
  for (const KindRow kind : kKinds) {
    const std::string_view key = kind().key();
    if (!key.empty() && is_given(config, key)) return kind();
  }
  return (*std::rbegin(kKinds))();
}

void require_supported_by_kind(const RunConfig& config) {
  const ModelKind& chosen = kind_of(config);
  for (const UsedFeature& used : features_of(config)) {
    const std::optional<std::string> remedy = chosen.refusal(used.feature);
    if (!used.is_used || !remedy) continue;
    throw Error(ErrorKind::kUsage, {.what = std::string(used.key) + " cannot be used with model." +
                                            std::string(chosen.key()),
                                    .where = config.origins.at(used.key),
                                    .remedy = *remedy});
  }
  for (const KindRow kind : kKinds) {
    if (&kind() == &chosen) continue;
    for (const std::string_view own : kind().own_keys()) {
      if (!is_given(config, own)) continue;
      const std::string key = "model." + std::string(own);
      throw Error(ErrorKind::kUsage,
                  {.what = key + " can only be used with " + std::string(kind().title()),
                   .where = config.origins.at(key),
                   .remedy = "leave it out, or set model." + std::string(kind().key())});
    }
  }
}

std::string path_of_model(const RunConfig& config) {
  if (!config.model.graph.empty()) return config.model.graph;
  return config.model.path.empty() ? config.model.config : config.model.path;
}

bool has_feature(const RunConfig& config, ModelFeature feature) {
  return !kind_of(config).refusal(feature);
}

}  // namespace sluice::detail
