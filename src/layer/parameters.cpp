// Tied storage and initial values of the parameters of chunks.
#include <ATen/core/grad_mode.h>

#include <map>
#include <unordered_set>

#include "sluice/error.h"
#include "sluice/parts/chunk.h"
#include "sluice/parts/keyed_random.h"

namespace sluice {
namespace {

constexpr double kDefaultStd = 0.02;

void initialize_by_default(const std::string& name, const std::string& key, at::Tensor& value,
                           std::uint64_t seed) {
  if (value.dim() >= 2) {
    keyed_normal_(value, seed, key, 0.0, kDefaultStd);
  } else if (name == "weight" || name.ends_with(".weight")) {
    value.fill_(1);
  } else if (name.ends_with("bias")) {
    value.zero_();
  }
}

void require_own_tensors(const std::vector<Chunk*>& chunks) {
  std::map<const void*, const ParameterInfo*> seen;
  for (const Chunk* chunk : chunks) {
    for (const ParameterInfo& parameter : chunk->parameters()) {
      const auto [other, added] = seen.emplace(parameter.tensor.unsafeGetTensorImpl(), &parameter);
      if (added) continue;
      throw Error(
          ErrorKind::kUsage,
          {.what = "parameter '" + parameter.name + "' is the very tensor of '" +
                   other->second->name + "'",
           .where = "layers of two stages",
           .remedy = "make a tensor of its own for each layer and declare it in LayerSpec::ties"});
    }
  }
}

}  // namespace

void share_tied_storage(const std::vector<Chunk*>& chunks) {
  require_own_tensors(chunks);
  std::map<std::string, ParameterInfo*> first_uses;
  for (Chunk* chunk : chunks) {
    for (ParameterInfo& parameter : chunk->parameters()) {
      const bool first = parameter.tied_to.empty();
      const auto [entry, added] =
          first_uses.emplace(first ? parameter.name : parameter.tied_to, &parameter);
      if (added || entry->second->tied_to.empty()) continue;
      if (first || parameter.layer < entry->second->layer) entry->second = &parameter;
    }
  }
  for (Chunk* chunk : chunks) {
    for (ParameterInfo& parameter : chunk->parameters()) {
      if (parameter.tied_to.empty()) continue;
      const ParameterInfo& source = *first_uses.at(parameter.tied_to);
      if (source.tensor.is_same(parameter.tensor)) continue;
      if (meta_of(source.tensor) != meta_of(parameter.tensor)) {
        throw Error(
            ErrorKind::kUsage,
            {.what = "'" + parameter.name + "' is " + to_text(meta_of(parameter.tensor)) +
                     " but is tied to '" + source.name + "', " + to_text(meta_of(source.tensor)),
             .where = "LayerSpec::ties",
             .remedy = "tie only parameters of one shape and dtype"});
      }
      // The variable stays, so every handle of the module sees the shared storage, and so does its
      // gradient accumulator, so each use has a gradient of its own.
      parameter.tensor.set_data(source.tensor.detach());
    }
  }
}

void initialize_parameters(Chunk& chunk, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::unordered_set<const void*> drawn;
  for (ParameterInfo& parameter : chunk.parameters()) {
    if (!drawn.insert(parameter.tensor.const_data_ptr()).second) continue;
    const LayerSpec& layer =
        chunk.layers()[static_cast<std::size_t>(parameter.layer - chunk.first_layer())];
    const std::size_t prefix = layer.prefix.value_or(layer.name).size();
    const std::string name = prefix == 0 ? parameter.name : parameter.name.substr(prefix + 1);
    const std::string& key = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
    at::Tensor value = parameter.tensor.detach();
    if (layer.initialize) {
      layer.initialize(name, key, value, seed);
    } else {
      initialize_by_default(name, key, value, seed);
    }
  }
}

}  // namespace sluice
