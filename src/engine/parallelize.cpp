#include "engine/parallelize.h"

#include <set>
#include <utility>

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
                                    .remedy = "give each a name of its own"});
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
                 .remedy = "leave a module in LocalChunk::modules for every layer that had one"});
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
             "keep its name, or say so in LocalChunk::removed");
  for (const std::string& name : after)
    if (!before.contains(name))
      refuse("the hook has added parameter '" + name + "'", "say so in LocalChunk::added");
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
  throw Error(ErrorKind::kInternal, {.what = "no such axis"});
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

std::map<Axis, Group> make_axis_groups(const Group& world, const Mesh& mesh) {
  std::map<Axis, Group> groups;
  for (const Axis axis : {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp,
                          Axis::kEpShard, Axis::kEp}) {
    if (mesh.size(axis) > 1) groups[axis] = world.split(mesh.group(world.rank(), axis).front());
  }
  return groups;
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
    chunk.modules.push_back(layer.make ? layer.make() : nullptr);
  }
  require_modules(layers, chunk);
  const NameSet before = parameter_names(layers, chunk);
  hook(chunk);
  require_modules(layers, chunk);
  require_declared(chunk, before, parameter_names(layers, chunk));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (chunk.modules[i]) layers[i].make = [module = chunk.modules[i]] { return module; };
  }
}

}  // namespace sluice
