#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/nearest_name.h"
#include "base/safetensors_header.h"
#include "base/safetensors_header_json.h"
#include "base/text.h"
#include "family/lora/adapter_config.h"
#include "family/lora/linear_layers.h"
#include "kind/adapter_files.h"
#include "sluice/error.h"
#include "sluice/lora.h"

namespace sluice {
namespace {

using detail::AdapterConfig;
using detail::LinearLayer;

using Shapes = std::map<std::string, std::vector<std::int64_t>>;  // keyed by parameter name

[[noreturn]] void refuse(const std::string& file, const std::string& tensor,
                         const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kInput,
              {.what = what, .where = file + ", tensor '" + tensor + "'", .remedy = remedy});
}

// Returns for example "model.layers.0.self_attn.q_proj", or "".
std::string layer_of(const std::string& parameter) {
  const std::size_t ending = std::string(".lora_A.weight").size();
  return is_adapter_parameter(parameter) ? parameter.substr(0, parameter.size() - ending) : "";
}

SafetensorsHeader read_tensors(const std::string& directory) {
  const std::string file = directory + "/" + kAdapterFile;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    const bool pickled = std::filesystem::exists(directory + "/adapter_model.bin", ignored);
    throw Error(
        ErrorKind::kInput,
        {.what = std::string("there is no ") + kAdapterFile,
         .where = directory,
         .remedy = pickled ? "adapter_model.bin is a pickle, which could run any code: save "
                             "the adapter again with a current PEFT"
                           : "name a directory that PEFT has saved"});
  }
  return io::read_header(File::open(file)).header;
}

// PEFT stores the head's own weight beside the head's adapter.
bool is_copy_of_base(const std::string& parameter, const SafetensorsEntry& entry,
                     const std::map<std::string, LinearLayer>& linear) {
  const std::string ending = kBaseLayerEnding;
  if (!parameter.ends_with(ending)) return false;
  const auto layer = linear.find(parameter.substr(0, parameter.size() - ending.size()));
  return layer != linear.end() &&
         entry.shape == std::vector<std::int64_t>{layer->second.out, layer->second.in};
}

Shapes shapes_of(const SafetensorsHeader& header, const std::string& file,
                 const std::map<std::string, LinearLayer>& linear) {
  const std::string prefix = kAdapterPrefix;
  std::vector<std::string> names;
  for (const auto& [name, layer] : linear) names.push_back(name);
  Shapes shapes;
  for (const SafetensorsEntry& entry : header.entries) {
    const bool is_prefixed = entry.name.starts_with(prefix);
    const std::string parameter = is_prefixed ? entry.name.substr(prefix.size()) : "";
    if (is_copy_of_base(parameter, entry, linear)) continue;
    const std::string layer = layer_of(parameter);
    if (layer.empty()) {
      refuse(file, entry.name, "it is not a matrix of an adapter",
             "names are " + prefix + "LAYER.lora_A.weight and " + prefix + "LAYER.lora_B.weight");
    }
    if (!linear.contains(layer)) {
      refuse(file, entry.name, "the model has no linear layer '" + layer + "'",
             suggest_name(layer, names));
    }
    shapes.emplace(parameter, entry.shape);
  }
  return shapes;
}

void require_shape(const Shapes& shapes, const std::string& parameter,
                   const std::vector<std::int64_t>& expected, const std::string& file) {
  const auto found = shapes.find(parameter);
  const std::string stored = kAdapterPrefix + parameter;
  if (found == shapes.end())
    refuse(file, stored, "the tensor is missing", "save the adapter again, whole");
  if (found->second == expected) return;
  refuse(file, stored,
         "expected shape " + shape_text(expected) + ", found " + shape_text(found->second),
         std::string("check that ") + kAdapterConfigFile +
             " belongs to the tensors, and the adapter to this model");
}

// PEFT ignores tensors of layers that are not selected, so we reject them.
void require_chosen_layers(const AdapterConfig& config, const std::set<std::string>& adapted,
                           const std::map<std::string, LinearLayer>& linear,
                           const std::string& file) {
  const std::string remedy =
      std::string("correct ") + kAdapterConfigFile + ", or save the adapter again, whole";
  for (const auto& [name, layer] : linear) {
    const std::string tensor = kAdapterPrefix + name + ".lora_A.weight";
    const bool excluded = config.is_excluded(layer), targeted = config.is_targeted(layer);
    if (adapted.contains(name)) {
      if (excluded) refuse(file, tensor, "exclude_modules leaves its layer out", remedy);
      if (!targeted) refuse(file, tensor, "target_modules does not name its layer", remedy);
    } else if (targeted && !excluded) {
      refuse(file, tensor, "the tensor is missing: target_modules names its layer",
             "save the adapter again, whole");
    }
  }
}

}  // namespace

Adapter read_adapter(const std::string& directory, const ModelSpec& model) {
  const AdapterConfig config = detail::read_adapter_config(directory);
  const std::string file = directory + "/" + kAdapterFile;
  const std::vector<LinearLayer> in_order = detail::linear_layers(model);
  std::map<std::string, LinearLayer> linear;
  for (const LinearLayer& layer : in_order) linear.emplace(layer.name, layer);
  const Shapes shapes = shapes_of(read_tensors(directory), file, linear);
  std::set<std::string> adapted;
  for (const auto& [parameter, shape] : shapes) adapted.insert(layer_of(parameter));
  require_chosen_layers(config, adapted, linear, file);

  Adapter adapter;
  adapter.dropout = config.dropout;
  adapter.rank_stabilized = config.rank_stabilized;
  for (const LinearLayer& layer : in_order) {
    if (!adapted.contains(layer.name)) continue;
    AdaptedLinear own{.name = layer.name,
                      .rank = config.rank_at(layer.name),
                      .in = layer.in,
                      .out = layer.out,
                      .alpha = config.alpha_at(layer.name),
                      .transposed = layer.transposed};
    if (layer.tied) {
      refuse(file, kAdapterPrefix + own.a(), "'" + layer.name + "' is tied to the embedding",
             "use an adapter that leaves it out");
    }
    require_shape(shapes, own.a(), {own.rank, own.in}, file);
    require_shape(shapes, own.b(), {own.out, own.rank}, file);
    adapter.layers.push_back(std::move(own));
  }
  if (!adapter.layers.empty()) return adapter;
  throw Error(ErrorKind::kInput, {.what = "the adapter has no tensors",
                                  .where = file,
                                  .remedy = "name a directory that PEFT has saved"});
}

}  // namespace sluice
