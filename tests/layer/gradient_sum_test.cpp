#include "layer/gradient_sum.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "plan/shard_tree.h"

namespace sluice::test {
namespace {

constexpr int kPerShard = 3;

at::Tensor gradient_of(int microbatch) {
  return at::sin(at::arange(37, at::kFloat) * 1.7 + microbatch).div(3 + microbatch % 5);
}

at::Tensor parameter() { return at::zeros({37}).set_requires_grad(true); }

// The expected sum: each shard in its own order, then halves pairwise.
at::Tensor tree(int begin, int end) {
  if (end - begin > 1) {
    const int middle = begin + (end - begin) / 2;
    return tree(begin, middle) + tree(middle, end);
  }
  at::Tensor sum = gradient_of(begin * kPerShard).clone();
  for (int m = 1; m < kPerShard; ++m) sum = sum + gradient_of(begin * kPerShard + m);
  return sum;
}

void add_in_order(ShardedSum& sum, const std::vector<int>& microbatches) {
  std::map<int, int> left;
  for (const int m : microbatches) ++left[m / kPerShard];
  for (const int m : microbatches) {
    sum.select(m / kPerShard);
    sum.add(gradient_of(m));
    if (--left[m / kPerShard] == 0) sum.finish(m / kPerShard);
  }
}

std::vector<int> microbatches_of(int begin, int end) {
  std::vector<int> all;
  for (int m = begin * kPerShard; m < end * kPerShard; ++m) all.push_back(m);
  return all;
}

TEST(GradientSumTest, ShardsAddUpInTheTreeWhateverShardComesFirst) {
  std::mt19937 random(7);
  const at::Tensor weight = parameter();
  for (const int shards : {1, 2, 3, 4, 5, 6, 8}) {
    ShardedSum sum(weight, "weight");
    sum.set_shards({0, shards, shards});
    for (int round = 0; round < 10; ++round) {
      std::vector<int> order = microbatches_of(0, shards);
      if (round > 0) std::shuffle(order.begin(), order.end(), random);
      std::map<int, int> next;
      for (int& m : order) m = m / kPerShard * kPerShard + next[m / kPerShard]++;
      sum.clear();
      sum.reserve();
      add_in_order(sum, order);
      EXPECT_TRUE(at::equal(sum.value(), tree(0, shards))) << shards << " shards, round " << round;
      EXPECT_EQ(sum.partial_sums().size(), 1U);
    }
  }
  EXPECT_FALSE(at::equal(tree(0, 4), (tree(0, 1) + tree(1, 2)) + tree(2, 3) + tree(3, 4)))
      << "the order can be told";
}

TEST(GradientSumTest, APartOfTheShardsLeavesItsLargestSubtrees) {
  const at::Tensor weight = parameter();
  for (int begin = 0; begin < 6; ++begin) {
    for (int end = begin + 1; end <= 6; ++end) {
      ShardedSum sum(weight, "weight");
      sum.set_shards({begin, end, 6});
      sum.clear();
      add_in_order(sum, microbatches_of(begin, end));
      const auto subtrees = detail::largest_subtrees({begin, end}, 6);
      const std::vector<at::Tensor> partial = sum.partial_sums();
      ASSERT_EQ(partial.size(), subtrees.size());
      for (std::size_t i = 0; i < partial.size(); ++i)
        EXPECT_TRUE(at::equal(partial[i], tree(subtrees[i].begin, subtrees[i].end)));
    }
  }
}

TEST(GradientSumTest, AShardWithoutAGradientIsLeftOut) {
  const at::Tensor weight = parameter();
  ShardedSum sum(weight, "weight");
  sum.set_shards({0, 4, 4});
  sum.clear();
  for (const int empty : {0, 3}) sum.finish(empty);
  EXPECT_FALSE(sum.value().defined());
  add_in_order(sum, microbatches_of(1, 3));
  EXPECT_TRUE(at::equal(sum.value(), tree(1, 2) + tree(2, 3)));
  sum.clear();
  for (int shard = 0; shard < 4; ++shard) sum.finish(shard);
  EXPECT_FALSE(sum.value().defined());
}

// The uses of a tied parameter share memory in this way.
TEST(GradientSumTest, OfSumsThatShareTheirMemoryOneKeepsIt) {
  const at::Tensor weight = parameter();
  ShardedSum first(weight, "first"), second(weight, "second");
  const at::Tensor gradient = gradient_of(0);
  for (ShardedSum* sum : {&first, &second}) sum->add(gradient);
  at::Tensor shared = gradient + gradient;
  first.value() = second.value() = shared;
  const c10::weak_intrusive_ptr<c10::TensorImpl> watched(shared.getIntrusivePtr());
  shared.reset();
  for (ShardedSum* sum : {&first, &second}) sum->clear();
  EXPECT_EQ(watched.use_count(), 1u);
  for (ShardedSum* sum : {&first, &second}) sum->add(gradient);
  EXPECT_FALSE(first.value().is_same(second.value()));
  EXPECT_TRUE(at::equal(first.value(), gradient));
  EXPECT_TRUE(at::equal(second.value(), gradient));
}

TEST(GradientSumTest, StepsUseTheMemoryOfTheFirstAgain) {
  const at::Tensor weight = parameter();
  ShardedSum sum(weight, "weight");
  sum.set_shards({0, 4, 4});
  std::vector<const void*> memory;
  for (int step = 0; step < 3; ++step) {
    sum.clear();
    sum.reserve();
    std::vector<const void*> used;
    for (int shard = 0; shard < 4; ++shard) {
      for (int m = shard * kPerShard; m < (shard + 1) * kPerShard; ++m) {
        sum.select(shard);
        const at::Tensor held = gradient_of(m);  // `held` prevents the sum from reusing its memory
        sum.add(held);
        used.push_back(sum.value().data_ptr());
      }
      sum.finish(shard);
    }
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    EXPECT_LE(used.size(), 3U) << "one open sum a level of the tree, and the running one";
    if (step == 0) memory = used;
    EXPECT_EQ(used, memory) << step;
  }
}

}  // namespace
}  // namespace sluice::test
