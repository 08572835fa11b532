#include "train/run_groups.h"

#include <string>

#include "base/text.h"
#include "run/replicas.h"
#include "sluice/error.h"

namespace sluice {

RunGroups make_run_groups(const Group& world, const Mesh& mesh) {
  if (world.size() != mesh.num_ranks()) {
    throw Error(ErrorKind::kUsage, {.what = "the mesh has " + counted(mesh.num_ranks(), "rank") +
                                            ", the transport " + std::to_string(world.size()),
                                    .remedy = "make as many endpoints as the mesh has ranks"});
  }
  RunGroups groups{.world = world, .pipeline = world, .replicas = {}};
  groups.num_replicas = num_replicas(mesh);
  if (groups.num_replicas * mesh.size(Axis::kPp) != mesh.num_ranks()) {
    throw Error(ErrorKind::kInternal, {.what = "the mesh has " + counted(mesh.num_ranks(), "rank") +
                                               ", " + counted(groups.num_replicas, "pipeline") +
                                               " of it " + std::to_string(mesh.size(Axis::kPp)) +
                                               ": gradients are not added over other axes"});
  }
  if (groups.num_replicas == 1) return groups;
  groups.replica = replica_of(mesh, world.rank());
  groups.pipeline = world.split(groups.replica);
  groups.replicas = world.split(place_of(mesh, world.rank()));
  return groups;
}

}  // namespace sluice
