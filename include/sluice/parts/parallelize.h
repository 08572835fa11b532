// The hook that sees every chunk of a rank before it runs: for parallelism of one's own inside it,
// freezing, conversion, other modules.
//
// Owns: LocalChunk, Parallelize, the names of a program's axes.
// Does not own: the mesh (mesh.h), when the hook is called (build_stages.h).
// Thread-safety: the hook is called on the threads of all ranks.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/parts/group.h"
#include "sluice/parts/mesh.h"

namespace sluice {

// What a program calls the axes.
struct AxisNames {
  std::string pp = "pp", dp_replicate = "dp_replicate", dp_shard = "dp_shard", cp = "cp", tp = "tp";
  std::string ep = "ep", ep_shard = "ep_shard";

  const std::string& of(Axis axis) const;
};

// One axis as a rank sees it.
struct MeshAxis {
  std::string name;
  Axis axis = Axis::kPp;
  int size = 1;
  int coordinate = 0;      // of this rank
  std::vector<int> ranks;  // that differ from this one along it alone, and this one
  // Of these ranks, for what the modules do together: within their forwards and backwards, which
  // all of them run in the same order. Of nobody where the size is 1.
  Group group = {};
};

// Collective over the world, all ranks of the mesh: a group for every axis of more than one.
std::map<Axis, Group> make_axis_groups(const Group& world, const Mesh& mesh);

struct NamedMesh {
  std::vector<MeshAxis> axes;
  // Throws Error(kUsage) with the nearest name.
  const MeshAxis& operator[](std::string_view name) const;
};

// A chunk whose modules are made, and hold no weights of theirs yet.
struct LocalChunk {
  int rank = 0, stage = 0, num_stages = 1;
  bool is_first = false, is_last = false;  // of the model's stages
  // The chunk's layers and the module of each, which the hook may change or replace by another that
  // the layer's forward takes. Of a whole module: one. Null: a layer without.
  std::vector<std::string> layers;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  NamedMesh world_mesh;   // pp, dp_replicate, dp_shard, cp, tp
  NamedMesh expert_mesh;  // ep_shard, ep: another view of dp_replicate, dp_shard and cp
  AxisNames axis_names;
  // Parameters, by full name, that the hook has added or taken out: all others must stay.
  std::vector<std::string> added, removed;
};

using Parallelize = std::function<void(LocalChunk& chunk)>;

}  // namespace sluice
