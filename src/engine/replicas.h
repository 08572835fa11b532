#pragma once

#include "sluice/program.h"

namespace sluice {

inline int num_replicas(const Mesh& mesh) {
  return mesh.size(Axis::kDpReplicate) * mesh.size(Axis::kDpShard);
}
// These functions require 0 <= rank < mesh.num_ranks().
inline int replica_of(const Mesh& mesh, int rank) {
  return mesh.coordinate(rank, Axis::kDpReplicate) * mesh.size(Axis::kDpShard) +
         mesh.coordinate(rank, Axis::kDpShard);
}
// Returns the replica that holds the experts of a coordinate along ep, among those that share
// experts with `replica`.
inline int replica_of_expert(const Mesh& mesh, int replica, int coordinate) {
  const int degree = mesh.size(Axis::kEp);
  return replica / degree * degree + coordinate;
}
inline int place_of(const Mesh& mesh, int rank) { return mesh.coordinate(rank, Axis::kPp); }

inline int share_of(const Mesh& mesh, int rank) { return mesh.coordinate(rank, Axis::kTp); }

// Returns the rank at these indices, with index 0 on all other axes.
inline int rank_at(const Mesh& mesh, int place, int replica, int share = 0) {
  const int shards = mesh.size(Axis::kDpShard);
  return mesh.rank_of(
      {.pp = place, .dp_replicate = replica / shards, .dp_shard = replica % shards, .tp = share});
}

}  // namespace sluice
