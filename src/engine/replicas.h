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

// The rank of this place, replica and share, whose coordinate along all other axes is 0.
inline int rank_at(const Mesh& mesh, int place, int replica, int share = 0) {
  const int shards = mesh.size(Axis::kDpShard);
  return mesh.rank_of(
      {.pp = place, .dp_replicate = replica / shards, .dp_shard = replica % shards, .tp = share});
}

}  // namespace sluice
