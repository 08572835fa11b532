// The layers of a chunk with the modules that the user's hook leaves of them.
// Thread-safety: one rank's thread.
#pragma once

#include <map>
#include <vector>

#include "engine/run_groups.h"
#include "sluice/layer.h"
#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"
#include "sluice/parts/run_options.h"

namespace sluice {

// Collective over the world, all ranks of the mesh: a group for every axis of more than one, those
// of the run where it has them.
std::map<Axis, Group> make_axis_groups(const RunGroups& groups, const Mesh& mesh);

// The mesh as a rank sees it. Throws Error(kUsage) for two axes of one name.
NamedMesh world_mesh(const Mesh& mesh, int rank, const AxisNames& names,
                     const std::map<Axis, Group>& groups);
NamedMesh expert_mesh(const Mesh& mesh, int rank, const AxisNames& names,
                      const std::map<Axis, Group>& groups);

// Makes the modules of the layers, calls the hook, and lets LayerSpec::make return what it leaves.
// chunk: all but layers and modules. Throws Error(kUsage) for a module that is gone and for
// parameters that came or went undeclared.
void parallelize(std::vector<LayerSpec>& layers, LocalChunk chunk, const Parallelize& hook);

}  // namespace sluice
