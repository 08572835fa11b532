#pragma once

#include <map>
#include <vector>

#include "engine/run_groups.h"
#include "sluice/layer.h"
#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"
#include "sluice/parts/run_options.h"

namespace sluice {

// Makes or reuses a group for every mesh axis with several ranks. Collective over all ranks of the
// mesh.
std::map<Axis, Group> make_axis_groups(const RunGroups& groups, const Mesh& mesh);

// Throws Error(kUsage) if two axes have the same name.
NamedMesh world_mesh(const Mesh& mesh, int rank, const AxisNames& names,
                     const std::map<Axis, Group>& groups);
NamedMesh expert_mesh(const Mesh& mesh, int rank, const AxisNames& names,
                      const std::map<Axis, Group>& groups);

// Creates the layers' modules and calls the user's hook. LayerSpec::make then returns the hook's
// modules. Throws Error(kUsage) if a module is missing or parameters were added or removed
// undeclared.
void parallelize(std::vector<LayerSpec>& layers, LocalChunk chunk, const Parallelize& hook);

}  // namespace sluice
