// The sum of the weight gradients of one parameter use over the microbatches of a step.
//
// Owns: the sums and their memory. Does not own: the source of gradients (chunk.h), the
// microbatches of a shard (stage.h), the sums of other replicas.
//
// Invariants:
//  1. Additions happen in the order of the calls; half-precision gradients add up in float32.
//  2. The memory of the sum is taken by reserve() and serves all steps, so that the peak depends
//     neither on the number of microbatches nor on the step, and no pages are mapped anew. A sum
//     that somebody else holds when it is cleared is let go; then a gradient is taken over instead,
//     where nobody else holds its storage.
//  3. With several shards each has a sum of its own, and sums of the tree (plan/shard_tree.h)
//     become one as soon as both halves are finished, whatever the order: finished shards leave
//     their largest subtrees.
// Thread-safety: none; on CUDA the engine's thread adds while the rank's thread waits for it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sluice/parts/chunk.h"

namespace sluice {

class ShardedSum final : public GradientSum {
 public:
  // parameter: a leaf that requires grad. name: for messages.
  ShardedSum(const at::Tensor& parameter, std::string name);
  ShardedSum(const ShardedSum&) = delete;
  ShardedSum& operator=(const ShardedSum&) = delete;

  const at::Tensor& parameter() const override { return parameter_; }
  // Takes the memory of the sum, unless it is there.
  void reserve();
  void add(const at::Tensor& gradient) override;
  std::pair<at::Tensor, bool> add_in_place() override;
  // The sum of the shard that was selected last; when all are finished and [begin, end) is a
  // subtree, the sum of them all. Undefined: no gradient since clear().
  at::Tensor& value() { return sum_; }
  void clear();

  // The calls that follow are for several shards; with one, value() is its sum. Precondition:
  // cleared.
  void set_shards(const OwnShards& shards);
  // Gradients that are added from now on are the shard's.
  void select(int shard);
  // All of the shard is added. Precondition: it is selected, or nothing of it was ever added.
  void finish(int shard);
  // The sum of every largest subtree of the own shards, ascending; undefined where nothing was
  // added. Precondition: all are finished.
  std::vector<at::Tensor> partial_sums() const;
  // In place of all sums.
  void replace(at::Tensor sum);

 private:
  struct Subtree {
    int end = 0;
    at::Tensor sum;
  };
  std::vector<at::Tensor>::iterator free_memory();
  void recycle(at::Tensor& sum);
  void count_sums();

  std::string name_;
  at::Tensor sum_;
  std::vector<at::Tensor> memory_;  // memory for sums, while there are none
  std::size_t num_sums_ = 1;        // largest number of sums at once
  at::Tensor parameter_;
  at::ScalarType dtype_;
  OwnShards shards_;
  int selected_ = 0;
  std::map<int, at::Tensor> open_;   // by shard, but for the selected one
  std::map<int, Subtree> finished_;  // by the first shard
};

// The sums of a chunk's parameters.
GradientSums make_sums(const std::vector<ParameterInfo>& parameters);

}  // namespace sluice
