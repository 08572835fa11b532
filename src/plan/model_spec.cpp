#include "sluice/model_spec.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "base/nearest_name.h"
#include "plan/crossing.h"
#include "sluice/error.h"

namespace sluice {

std::int64_t dtype_bytes(std::string_view dtype) {
  static const std::vector<std::pair<std::string, std::int64_t>> sizes = {
      {"float32", 4}, {"float64", 8}, {"float16", 2}, {"bfloat16", 2}, {"int64", 8},
      {"int32", 4},   {"int16", 2},   {"int8", 1},    {"uint8", 1},    {"bool", 1}};
  std::vector<std::string> names;
  for (const auto& [name, bytes] : sizes) {
    if (name == dtype) return bytes;
    names.push_back(name);
  }
  throw Error(ErrorKind::kUsage,
              {.what = "the size of dtype '" + std::string(dtype) + "' is not known",
               .remedy = suggest_name(std::string(dtype), names)});
}

std::int64_t ParameterSpec::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::int64_t> ValueSpec::sizes_at(const MicrobatchShape& shape) const {
  std::vector<std::int64_t> result = sizes;
  std::replace(result.begin(), result.end(), kMicrobatchRows, shape.rows);
  std::replace(result.begin(), result.end(), kMicrobatchLength, shape.length);
  return result;
}

double ValueSpec::bytes_at(const MicrobatchShape& shape) const {
  auto bytes = static_cast<double>(dtype_bytes(dtype));
  for (const std::int64_t size : sizes_at(shape)) bytes *= static_cast<double>(size);
  return bytes;
}

std::int64_t LayerInfo::num_parameters() const {
  std::int64_t sum = 0;
  for (const ParameterSpec& parameter : parameters) sum += parameter.numel();
  return sum;
}

bool LayerInfo::computes_loss() const {
  return role == LayerRole::kHead && !writes.empty() && writes.front().name == "loss";
}

bool LayerInfo::trains() const {
  if (frozen) return false;
  if (parameters.empty()) return !parameters_known;
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const ParameterSpec& parameter) { return parameter.trainable; });
}

std::vector<int> ModelSpec::free_layers_of(const std::vector<int>& of,
                                           const std::vector<std::string>& outputs) const {
  std::set<std::string> read(outputs.begin(), outputs.end());
  for (const int i : of) read.insert(layers.at(i).reads.begin(), layers.at(i).reads.end());
  return needed_free_layers(
      free_layers, std::move(read), [](const LayerInfo& layer, const std::string& name) {
        return std::any_of(layer.writes.begin(), layer.writes.end(),
                           [&](const ValueSpec& value) { return value.name == name; });
      });
}

std::vector<std::string> LayerInfo::module_names() const {
  return modules.empty() ? std::vector<std::string>{name} : modules;
}

std::pair<int, int> ModelSpec::block_range() const {
  const auto is_block = [](const LayerInfo& layer) { return layer.role == LayerRole::kBlock; };
  const auto first = std::find_if(layers.begin(), layers.end(), is_block);
  if (first == layers.end()) {
    const auto embeddings = std::find_if(layers.begin(), layers.end(), [](const LayerInfo& layer) {
      return layer.role != LayerRole::kEmbedding;
    });
    const int position = static_cast<int>(embeddings - layers.begin());
    return {position, position};
  }
  const auto last = std::find_if(layers.rbegin(), layers.rend(), is_block);
  return {static_cast<int>(first - layers.begin()), static_cast<int>(layers.rend() - last)};
}

std::int64_t ModelSpec::hidden_size() const {
  const auto [first, last] = block_range();
  if (first == last || layers[first].writes.empty()) return 0;
  const std::vector<std::int64_t>& sizes = layers[first].writes.front().sizes;
  return sizes.empty() ? 0 : std::max<std::int64_t>(0, sizes.back());
}

std::int64_t ModelSpec::num_parameters() const {
  std::int64_t sum = 0;
  for (const LayerInfo& layer : layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (parameter.tied_to.empty()) sum += parameter.numel();
    }
  }
  return sum;
}

ModelSpec model_spec_of_blocks(int num_layers) {
  if (num_layers < 0 || num_layers > kMaxLayers) {
    throw Error(ErrorKind::kUsage,
                {.what = "the number of layers is " + std::to_string(num_layers),
                 .remedy = "give a number from 0 to " + std::to_string(kMaxLayers)});
  }
  ModelSpec spec;
  const auto add = [&](const std::string& name, LayerRole role) {
    LayerInfo& layer = spec.layers.emplace_back();
    layer.name = name;
    layer.role = role;
  };
  add("model.embed_tokens", LayerRole::kEmbedding);
  for (int i = 0; i < num_layers; ++i) add("model.layers." + std::to_string(i), LayerRole::kBlock);
  add("model.norm", LayerRole::kNorm);
  add("lm_head", LayerRole::kHead);
  return spec;
}

}  // namespace sluice
