#include "engine/run_groups.h"

#include <string>

#include "base/format.h"
#include "base/text.h"
#include "engine/replicas.h"
#include "sluice/error.h"

namespace sluice {
namespace {

void set_expert_groups(RunGroups& groups, const Mesh& mesh) {
  const int degree = mesh.size(Axis::kEp), rank = groups.world.rank();
  if (degree == 1) {
    groups.expert_holders = groups.holders();
    return;
  }
  if (groups.num_shares > 1)
    throw Error(ErrorKind::kInternal, {.what = "the mesh has both ep and tp above 1"});
  groups.num_experts_ranks = degree;
  groups.expert_coordinate = mesh.coordinate(rank, Axis::kEp);
  groups.expert_holders = {{}, mesh.size(Axis::kEpShard), mesh.coordinate(rank, Axis::kEpShard)};
  groups.experts = groups.world.split(mesh.group(rank, Axis::kEp).front());
  if (groups.expert_holders.count > 1)
    groups.expert_holders.group = groups.world.split(mesh.group(rank, Axis::kEpShard).front());
  groups.copy = groups.world.split(groups.replica / degree);
}

}  // namespace

RunGroups make_run_groups(const Group& world, const Mesh& mesh) {
  if (world.size() != mesh.num_ranks()) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the mesh has {}, but the transport has {}",
                                   counted(mesh.num_ranks(), "rank"), world.size()),
                 .remedy = "make as many endpoints as the mesh has ranks"});
  }
  RunGroups groups{.world = world, .pipeline = world, .replicas = {}, .shares = {}, .copy = world};
  groups.num_replicas = num_replicas(mesh);
  groups.num_shares = mesh.size(Axis::kTp);
  if (groups.num_replicas * groups.num_shares * mesh.size(Axis::kPp) != mesh.num_ranks()) {
    throw Error(
        ErrorKind::kInternal,
        {.what = formatted(
             "the mesh has {}, but only {} of size {}: gradients are not added over other axes",
             counted(mesh.num_ranks(), "rank"),
             counted(std::int64_t{groups.num_replicas} * groups.num_shares, "pipeline"),
             mesh.size(Axis::kPp))});
  }
  const int rank = world.rank(), shares = groups.num_shares;
  groups.replica = replica_of(mesh, rank);
  groups.share = share_of(mesh, rank);
  const bool has_replicas = groups.num_replicas > 1, has_shares = shares > 1;
  if (has_replicas || has_shares)
    groups.pipeline = world.split(groups.replica * shares + groups.share);
  if (has_replicas) groups.replicas = world.split(place_of(mesh, rank) * shares + groups.share);
  if (has_shares) {
    groups.shares = world.split(place_of(mesh, rank) * groups.num_replicas + groups.replica);
    if (has_replicas) groups.copy = world.split(groups.replica);
  } else {
    groups.copy = groups.pipeline;
  }
  set_expert_groups(groups, mesh);
  return groups;
}

}  // namespace sluice
