// Sums the weight gradients of one use of a parameter over the microbatches of a step.
//
// Gradients are added in call order, in float32 for half precision. All steps use the memory from
// reserve(), so peak memory does not depend on the step. clear() gives up memory that other tensors
// still use. Each data-parallel shard has its own sum. Sums of sibling shards in the tree
// (plan/shard_tree.h) are merged once both are finished.
//
// Not thread-safe. On CUDA, autograd's thread adds while the rank's thread waits.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sluice/parts/chunk.h"

namespace sluice {

class ShardedSum final : public GradientSum {
 public:
  ShardedSum(const at::Tensor& parameter, std::string name);
  ShardedSum(const ShardedSum&) = delete;
  ShardedSum& operator=(const ShardedSum&) = delete;

  const at::Tensor& parameter() const override { return parameter_; }
  void reserve();
  void add(const at::Tensor& gradient) override;
  std::pair<at::Tensor, bool> add_in_place() override;
  // Returns the selected shard's sum, or the subtree's sum if all shards are finished and form a
  // subtree. Undefined if there was no gradient since clear().
  at::Tensor& value() { return sum_; }
  void clear();

  // Sets the shards that this rank computes. Requires clear() first.
  void set_shards(const OwnShards& shards);
  void select(int shard);
  // Marks a shard as complete. The shard must be selected or have no gradients.
  void finish(int shard);
  // Returns the sums of the largest subtrees of this rank's shards, in ascending order. Undefined
  // for a subtree without gradients. All shards must be finished.
  std::vector<at::Tensor> partial_sums() const;
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
  std::vector<at::Tensor> memory_;
  std::size_t num_sums_ = 1;  // the most sums that existed at once
  at::Tensor parameter_;
  at::ScalarType dtype_;
  OwnShards shards_;
  int selected_ = 0;
  std::map<int, at::Tensor> open_;  // sums of unfinished shards, except the selected one
  std::map<int, Subtree> finished_;
};

GradientSums make_sums(const std::vector<ParameterInfo>& parameters);

}  // namespace sluice
