#include "engine/run_groups.h"

#include <string>

#include "base/format.h"
#include "base/text.h"
#include "engine/replicas.h"
#include "sluice/error.h"

namespace sluice {

RunGroups make_run_groups(const Group& world, const Mesh& mesh) {
  if (world.size() != mesh.num_ranks()) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the mesh has {}, the transport {}",
                                   counted(mesh.num_ranks(), "rank"), world.size()),
                 .remedy = "make as many endpoints as the mesh has ranks"});
  }
  RunGroups groups{.world = world, .pipeline = world, .replicas = {}};
  groups.num_replicas = num_replicas(mesh);
  if (groups.num_replicas * mesh.size(Axis::kPp) != mesh.num_ranks()) {
    throw Error(
        ErrorKind::kInternal,
        {.what = formatted("the mesh has {}, {} of it {}: gradients are not added over other axes",
                           counted(mesh.num_ranks(), "rank"),
                           counted(groups.num_replicas, "pipeline"), mesh.size(Axis::kPp))});
  }
  if (groups.num_replicas == 1) return groups;
  groups.replica = replica_of(mesh, world.rank());
  groups.pipeline = world.split(groups.replica);
  groups.replicas = world.split(place_of(mesh, world.rank()));
  return groups;
}

}  // namespace sluice
