// Data parallelism: replicas of the pipeline, each with its own rows of every step's batch.
//
// The microbatches of a step, of all replicas, are numbered through: those of replica 0 first. They
// fall into `shards` ranges of equal length. Each range is summed in its order; the sums of the
// ranges add up in a balanced binary tree: [0, n) is [0, n/2) + [n/2, n). So the gradients are the
// same bits for every degree that divides the shards, 1 included. With Reduction::kFast every
// replica adds up its own, and replicas in their order.
//
// Does not own: which rank is of which replica (mesh.h), how sums travel (train_ops.h).
// Thread-safety: values.
#pragma once

#include <cstdint>

namespace sluice {

enum class Reduction : std::uint8_t { kExact, kFast };

struct DataParallel {
  int degree = 1;  // replicas
  // Of the gradients; the degree divides it, and it divides the microbatches of all replicas. 0: as
  // many as the degree.
  int shards = 0;
  // Optimizer state is sharded over the replicas: each updates its share of the parameters, and
  // gives it to the others.
  bool zero1 = false;
  // So are the parameters: gathered where the program says UNSHARD, dropped at RESHARD.
  bool zero3 = false;
  Reduction reduction = Reduction::kExact;
  bool per_microbatch = false;  // gradients are reduced after every backward

  int num_shards() const { return shards > 0 ? shards : degree; }
  friend bool operator==(const DataParallel&, const DataParallel&) = default;
};

}  // namespace sluice
