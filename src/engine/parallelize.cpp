#include "engine/parallelize.h"

#include <set>
#include <utility>

#include "base/nearest_name.h"
#include "parallel/divided_weights.h"
#include "sluice/error.h"
#include "sluice/layer.h"

namespace sluice {
namespace {

using NameSet = std::set<std::string>;

NamedMesh view(const Mesh& mesh, int rank, const AxisNames& names,
               const std::map<Axis, Group>& groups, const std::vector<Axis>& axes) {
  NamedMesh named;
  for (const Axis axis : axes) {
    const auto group = groups.find(axis);
    named.axes.push_back({names.of(axis), axis, mesh.size(axis), mesh.coordinate(rank, axis),
                          mesh.group(rank, axis), group == groups.end() ? Group() : group->second});
  }
  return named;
}

void require_distinct(const AxisNames& names) {
  std::set<std::string> seen;
  for (const Axis axis : {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp,
                          Axis::kEp, Axis::kEpShard}) {
    if (seen.insert(names.of(axis)).second) continue;
    throw Error(ErrorKind::kUsage, {.what = "two axes are called '" + names.of(axis) + "'",
                                    .where = "AxisNames",
                                    .remedy = "give them different names"});
  }
}

NameSet parameter_names(const std::vector<LayerSpec>& layers, const LocalChunk& chunk) {
  NameSet names;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!chunk.modules[i]) continue;
    for (const auto& item : chunk.modules[i]->named_parameters())
      if (item.value().defined()) names.insert(layers[i].full_name(item.key()));
  }
  return names;
}

void require_modules(const std::vector<LayerSpec>& layers, const LocalChunk& chunk) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i < chunk.modules.size() && (chunk.modules[i] || !layers[i].make)) continue;
    throw Error(ErrorKind::kUsage,
                {.what = "the hook left no module for layer '" + layers[i].name + "'",
                 .where = "parallelize, stage " + std::to_string(chunk.stage),
                 .remedy = "leave every layer's module in LocalChunk::modules"});
  }
}

void require_declared(const LocalChunk& chunk, NameSet before, const NameSet& after) {
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage, {.what = what,
                                    .where = "parallelize, stage " + std::to_string(chunk.stage),
                                    .remedy = remedy});
  };
  for (const std::string& name : chunk.removed) {
    if (before.erase(name) == 0 || after.contains(name))
      refuse("LocalChunk::removed names '" + name + "', which the hook has not taken out",
             "name parameters that are gone");
  }
  for (const std::string& name : chunk.added) {
    if (!before.insert(name).second || !after.contains(name))
      refuse("LocalChunk::added names '" + name + "', which the hook has not added",
             "name parameters that are new");
  }
  for (const std::string& name : before)
    if (!after.contains(name))
      refuse("the hook has taken out or renamed parameter '" + name + "'",
             "keep its name, or list it in LocalChunk::removed");
  for (const std::string& name : after)
    if (!before.contains(name))
      refuse("the hook has added parameter '" + name + "'", "list it in LocalChunk::added");
}

void take_slices(std::vector<LayerSpec>& layers, const LocalChunk& chunk) {
  NameSet known;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!chunk.modules[i]) continue;
    const std::string prefix = layers[i].full_name("");
    for (const auto& item : chunk.modules[i]->named_parameters()) {
      const std::string name = layers[i].full_name(item.key());
      known.insert(name);
      for (const auto& [declared, held] : chunk.slices) {
        if (declared != name) continue;
        ParameterSlices& taken = layers[i].slices.emplace_back(item.key(), held).second;
        if (taken.first_use.starts_with(prefix)) taken.first_use.erase(0, prefix.size());
      }
    }
  }
  for (const auto& [name, held] : chunk.slices) {
    if (known.contains(name)) continue;
    throw Error(
        ErrorKind::kUsage,
        {.what = "LocalChunk::slices names '" + name + "', which is not one of its parameters",
         .where = "parallelize, stage " + std::to_string(chunk.stage),
         .remedy = suggest_name(name, std::vector<std::string>(known.begin(), known.end()))});
  }
}

using LayerForward = decltype(LayerSpec::forward);

LayerForward divided(LayerForward forward, std::shared_ptr<detail::DividedWeights> weights) {
  return [forward = std::move(forward), weights = std::move(weights)](
             torch::nn::Module& module, const std::vector<at::Tensor>& inputs) {
    return weights->run([&] { return forward(module, inputs); });
  };
}

}  // namespace

const std::string& AxisNames::of(Axis axis) const {
  switch (axis) {
    case Axis::kPp:
      return pp;
    case Axis::kDpReplicate:
      return dp_replicate;
    case Axis::kDpShard:
      return dp_shard;
    case Axis::kCp:
      return cp;
    case Axis::kTp:
      return tp;
    case Axis::kEp:
      return ep;
    case Axis::kEpShard:
      return ep_shard;
  }
  throw Error(ErrorKind::kInternal, {.what = "the axis is unknown"});
}

const MeshAxis& NamedMesh::operator[](std::string_view name) const {
  std::vector<std::string> names;
  for (const MeshAxis& axis : axes) {
    if (axis.name == name) return axis;
    names.push_back(axis.name);
  }
  throw Error(ErrorKind::kUsage, {.what = "the mesh has no axis '" + std::string(name) + "'",
                                  .where = "NamedMesh",
                                  .remedy = suggest_name(name, names)});
}

std::map<Axis, Group> make_axis_groups(const RunGroups& groups, const Mesh& mesh) {
  std::map<Axis, Group> of_axes;
  const Group& world = groups.world;
  for (const Axis axis : {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp,
                          Axis::kEpShard, Axis::kEp}) {
    if (mesh.size(axis) == 1) continue;
    const std::vector<int> ranks = mesh.group(world.rank(), axis);
    // pp groups are not shared, because their ranks run different instructions.
    const auto is = [&](const Group& group) {
      return axis != Axis::kPp && group && group.members() == ranks;
    };
    // Layers exchange tokens over ep while replicas reduce gradients, so they need other groups.
    if (axis == Axis::kEp) {
      of_axes[axis] = groups.experts;
    } else if (is(groups.expert_holders.group)) {
      of_axes[axis] = groups.expert_holders.group;
    } else if (is(groups.replicas)) {
      of_axes[axis] = groups.replicas;
    } else if (is(groups.shares)) {
      of_axes[axis] = groups.shares;
    } else {
      of_axes[axis] = world.split(ranks.front());
    }
  }
  return of_axes;
}

NamedMesh world_mesh(const Mesh& mesh, int rank, const AxisNames& names,
                     const std::map<Axis, Group>& groups) {
  require_distinct(names);
  return view(mesh, rank, names, groups,
              {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp});
}

NamedMesh expert_mesh(const Mesh& mesh, int rank, const AxisNames& names,
                      const std::map<Axis, Group>& groups) {
  require_distinct(names);
  return view(mesh, rank, names, groups, {Axis::kEpShard, Axis::kEp});
}

void parallelize(std::vector<LayerSpec>& layers, LocalChunk chunk, const Parallelize& hook) {
  for (const LayerSpec& layer : layers) {
    const KeyedRandomScope scope(0, 0, layer.name, 0);
    chunk.layers.push_back(layer.name);
    chunk.prefixes.push_back(layer.prefix.value_or(layer.name));
    chunk.modules.push_back(layer.make ? layer.make() : nullptr);
  }
  require_modules(layers, chunk);
  const NameSet before = parameter_names(layers, chunk);
  hook(chunk);
  require_modules(layers, chunk);
  require_declared(chunk, before, parameter_names(layers, chunk));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (chunk.modules[i]) layers[i].make = [module = chunk.modules[i]] { return module; };
    if (i < chunk.divided.size() && chunk.divided[i])
      layers[i].forward = divided(std::move(layers[i].forward), chunk.divided[i]);
  }
  take_slices(layers, chunk);
}

}  // namespace sluice
