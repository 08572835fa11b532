#include <ATen/core/grad_mode.h>

#include <map>
#include <unordered_set>

#include "base/text.h"
#include "layer/default_values.h"
#include "layer/draw_whole.h"
#include "layer/initialize_chunks.h"
#include "layer/slice.h"
#include "sluice/error.h"
#include "sluice/layer.h"
#include "sluice/parts/chunk.h"

namespace sluice {
namespace {

constexpr double kDefaultStd = 0.02;

void draw_normal(const ParameterInfo& parameter, const std::string& key, at::Tensor& value,
                 std::uint64_t seed) {
  for_each_box(parameter, value, [&](const Slice& box, const at::Tensor& part) {
    const at::Tensor target = part.contiguous();
    const at::Tensor flat = target.view({-1});
    for_each_run(box, parameter.global_shape,
                 [&](std::int64_t in_whole, std::int64_t in_box, std::int64_t count) {
                   at::Tensor run = flat.narrow(0, in_box, count);
                   keyed_normal_(run, seed, key, 0.0, kDefaultStd, in_whole);
                 });
    if (!target.is_alias_of(part)) part.copy_(target);
  });
}

std::string name_in_layer(const LayerSpec& layer, const ParameterInfo& parameter) {
  const std::size_t prefix = layer.prefix.value_or(layer.name).size();
  return prefix == 0 ? parameter.name : parameter.name.substr(prefix + 1);
}

// Leaves parameters without a default unfilled, which is an error before the first step
// (unfilled.h).
void initialize_by_default(const ParameterInfo& parameter, const std::string& name,
                           const std::string& key, at::Tensor& value, std::uint64_t seed) {
  if (has_default_normal(value)) {
    draw_normal(parameter, key, value, seed);
  } else if (has_default_ones(name, value)) {
    value.fill_(1);
  } else if (has_default_zeros(name, value)) {
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
          {.what = "parameter '" + parameter.name + "' is the same tensor as '" +
                   other->second->name + "'",
           .where = "layers of two stages",
           .remedy = "give each layer its own tensor and declare the tie in LayerSpec::ties"});
    }
  }
}

// If parts of a module run as separate layers, makes them share the module's buffers.
void share_buffers(Chunk& chunk) {
  std::map<std::string, at::Tensor> first;
  for (std::size_t i = 0; i < chunk.layers().size(); ++i) {
    for (const auto& item : chunk.module(i).named_buffers()) {
      if (!item.value().defined()) continue;
      const std::string name = chunk.layers()[i].full_name(item.key());
      const auto [one, added] = first.emplace(name, item.value());
      if (added || one->second.is_same(item.value())) continue;
      if (meta_of(one->second) != meta_of(item.value())) {
        throw Error(ErrorKind::kUsage,
                    {.what = "buffer '" + name + "' is " + to_text(meta_of(one->second)) +
                             ", but where other parts run it is " + to_text(meta_of(item.value())),
                     .where = "PipelineOptions::activation_checkpoint",
                     .remedy = "hold it in a part of the module"});
      }
      at::Tensor(item.value()).set_data(one->second.detach());
    }
  }
}

}  // namespace

void share_tied_storage(const std::vector<Chunk*>& chunks) {
  require_own_tensors(chunks);
  for (Chunk* chunk : chunks) share_buffers(*chunk);
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
      if (meta_of(source.tensor) != meta_of(parameter.tensor) || source.split != parameter.split ||
          (source.split && source.slices != parameter.slices)) {
        throw Error(
            ErrorKind::kUsage,
            {.what = "'" + parameter.name + "' is " + to_text(meta_of(parameter.tensor)) +
                     " but is tied to '" + source.name + "', " + to_text(meta_of(source.tensor)),
             .where = "LayerSpec::ties",
             .remedy = "tie only parameters of one shape, slice and dtype"});
      }
      // Keep the variable, so that the module sees the shared storage and each use has a separate
      // gradient accumulator.
      parameter.tensor.set_data(source.tensor.detach());
    }
  }
}

bool is_drawn_by_default(const Chunk& chunk, const ParameterInfo& parameter) {
  const LayerSpec& layer = chunk.layers()[chunk.index_of(parameter)];
  return !layer.initialize && has_default_value(name_in_layer(layer, parameter), parameter.tensor);
}

void initialize_parameters(Chunk& chunk, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::unordered_set<const void*> drawn;
  for (ParameterInfo& parameter : chunk.parameters()) {
    if (!drawn.insert(parameter.tensor.const_data_ptr()).second) continue;
    const LayerSpec& layer = chunk.layers()[chunk.index_of(parameter)];
    const std::string name = name_in_layer(layer, parameter);
    const std::string& key = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
    at::Tensor value = parameter.tensor.detach();
    if (layer.initialize) {
      draw_whole(parameter, value,
                 [&](at::Tensor& whole) { layer.initialize(name, key, whole, seed); });
    } else {
      initialize_by_default(parameter, name, key, value, seed);
    }
  }
}

}  // namespace sluice
