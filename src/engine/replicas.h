// A mesh rank's replica, and its place and share in it.
// Thread-safety: pure functions.
#pragma once

#include "sluice/program.h"

namespace sluice {

// Pipelines of the mesh, each with data of its own.
inline int num_replicas(const Mesh& mesh) {
  return mesh.size(Axis::kDpReplicate) * mesh.size(Axis::kDpShard);
}
// Precondition of these: 0 <= rank < mesh.num_ranks().
inline int replica_of(const Mesh& mesh, int rank) {
  return mesh.coordinate(rank, Axis::kDpReplicate) * mesh.size(Axis::kDpShard) +
         mesh.coordinate(rank, Axis::kDpShard);
}
// In its pipeline: the number of its row.
inline int place_of(const Mesh& mesh, int rank) { return mesh.coordinate(rank, Axis::kPp); }

// Along tensor parallelism: the number of its share of the slices.
inline int share_of(const Mesh& mesh, int rank) { return mesh.coordinate(rank, Axis::kTp); }

// The rank of this place, replica and share, the first one where the mesh has other axes.
inline int rank_at(const Mesh& mesh, int place, int replica, int share = 0) {
  int rank = 0;
  while (place_of(mesh, rank) != place || replica_of(mesh, rank) != replica ||
         share_of(mesh, rank) != share)
    ++rank;
  return rank;
}

}  // namespace sluice
