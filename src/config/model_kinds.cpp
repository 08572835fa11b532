#include "config/model_kinds.h"

#include <iterator>
#include <utility>

#include "archive/graph_kind.h"
#include "base/format.h"
#include "config/key_table.h"
#include "config/origins.h"
#include "family/family_kind.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

const Key& model_key(std::string_view name) {
  for (const Key& key : key_table())
    if (key.full_name() == "model." + std::string(name)) return key;
  throw Error(ErrorKind::kInternal, {.what = formatted("there is no key model.{}", name)});
}

bool is_given(const RunConfig& config, std::string_view name) {
  const Key& key = model_key(name);
  return key.get(config) != key.default_value();
}

std::vector<std::string> texts_of(const Value& value) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return *list;
  const std::string& text = std::get<std::string>(value);
  return text.empty() ? std::vector<std::string>() : std::vector<std::string>{text};
}

std::string family_path(const RunConfig& config) {
  return config.model.path.empty() ? config.model.config : config.model.path;
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
  for (const auto& [kind, maker] : config.kinds)
    if (!kind->key().empty() && is_given(config, kind->key())) return *kind;
  if (const std::string path = family_path(config); !path.empty()) {
    for (const auto& [kind, maker] : config.kinds)
      if (kind->claims(path)) return *kind;
  }
  return *std::rbegin(config.kinds)->kind;
}

std::map<std::string, std::vector<std::string>, std::less<>> own_keys_of(const RunConfig& config) {
  std::map<std::string, std::vector<std::string>, std::less<>> own;
  for (const std::string_view key : kind_of(config).own_keys())
    own[std::string(key)] = texts_of(model_key(key).get(config));
  return own;
}

void require_supported_by_kind(const RunConfig& config) {
  const ModelKind& chosen = kind_of(config);
  for (const UsedFeature& used : features_of(config)) {
    const std::optional<std::string> remedy = chosen.refusal(used.feature);
    if (!used.is_used || !remedy) continue;
    throw Error(ErrorKind::kUsage,
                {.what = chosen.key().empty()
                             ? formatted("{} cannot be used with {}", used.key, chosen.title())
                             : formatted("{} cannot be used with model.{}", used.key, chosen.key()),
                 .where = config.origins.at(used.key),
                 .remedy = *remedy});
  }
  for (const auto& [kind, maker] : config.kinds) {
    if (kind == &chosen) continue;
    for (const std::string_view own : kind->own_keys()) {
      if (!is_given(config, own)) continue;
      const std::string key = "model." + std::string(own);
      throw Error(ErrorKind::kUsage,
                  {.what = key + " can only be used with " + std::string(kind->title()),
                   .where = config.origins.at(key),
                   .remedy = "leave it out, or set model." + std::string(kind->key())});
    }
  }
}

std::string path_of_model(const RunConfig& config) {
  const std::string_view key = kind_of(config).key();
  if (key.empty()) return family_path(config);
  return texts_of(model_key(key).get(config)).front();
}

bool has_feature(const RunConfig& config, ModelFeature feature) {
  return !kind_of(config).refusal(feature);
}

}  // namespace sluice::detail

namespace sluice {

KindTable native_kinds() {
  static const KindRow table[] = {{&detail::graph_kind()}, {&detail::family_kind()}};
  return table;
}

}  // namespace sluice
