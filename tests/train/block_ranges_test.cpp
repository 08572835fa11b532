#include "optim/block_ranges.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "optim/gradient_norm.h"
#include "optim/packed_parts.h"
#include "optim/slice_blocks.h"
#include "plan/block_shares.h"
#include "plan/slices.h"
#include "support/expect_error.h"

namespace sluice::test::block_ranges_test {
namespace {

std::vector<std::vector<std::int64_t>> ends_of(const std::vector<at::Tensor>& parameters) {
  std::vector<std::vector<std::int64_t>> ends;
  for (const at::Tensor& parameter : parameters) ends.push_back(block_ends(parameter));
  return ends;
}

TEST(BlockRangesTest, EveryElementHasOneOwnerAndRangesEndAtBlocks) {
  const std::vector<at::Tensor> parameters = {
      at::empty({5 * kGradientBlock + 3}), at::empty({7}), at::empty({3, kGradientBlock}),
      at::empty({300, 200}).t(),           at::empty({}),  at::empty({0}),
      at::empty({2 * kGradientBlock})};
  const std::vector<std::size_t> trainable = {0, 1, 2, 3, 4, 5, 6};
  for (int owners = 1; owners <= 9; ++owners) {
    const auto of_owner = divide_blocks(ends_of(parameters), trainable, owners);
    ASSERT_EQ(of_owner.size(), static_cast<std::size_t>(owners));
    std::vector<std::int64_t> next(parameters.size(), 0);
    std::int64_t all = 0, most = 0;
    std::size_t last = 0;
    for (const auto& ranges : of_owner) {
      std::int64_t own = 0;
      for (const ElementRange& range : ranges) {
        EXPECT_GE(range.parameter, last) << "in layer order";
        last = range.parameter;
        EXPECT_EQ(range.begin, next[range.parameter]);
        EXPECT_EQ(range.begin % kGradientBlock, 0);
        next[range.parameter] = range.end;
        own += range.size();
      }
      all += own;
      most = std::max(most, own);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) EXPECT_EQ(next[i], parameters[i].numel());
    // The transposed parameter is one block, the largest.
    EXPECT_LE(most, all / owners + 60'000) << owners;
  }
}

TEST(BlockRangesTest, ThePlanCountsWhatEachOwnerGets) {
  const std::vector<std::vector<std::int64_t>> stages = {
      {}, {7}, {3 * kGradientBlock}, {5 * kGradientBlock + 3, 7, 3 * kGradientBlock, 60'000, 1, 0}};
  for (const std::vector<std::int64_t>& sizes : stages) {
    std::vector<at::Tensor> parameters;
    for (const std::int64_t size : sizes) parameters.push_back(at::empty({size}));
    std::vector<std::size_t> all(sizes.size());
    std::iota(all.begin(), all.end(), 0);
    for (int owners = 1; owners <= 9; ++owners) {
      std::vector<std::int64_t> shares;
      for (const auto& ranges : divide_blocks(ends_of(parameters), all, owners)) {
        std::int64_t& own = shares.emplace_back(0);
        for (const ElementRange& range : ranges) own += range.size();
      }
      EXPECT_EQ(detail::block_shares(sizes, owners), shares) << owners;
    }
  }
}

// Norm of each slice, when `shares` ranks hold neighbouring slices and `owners` replicas of each
// rank own the blocks of a gradient.
std::vector<double> slice_norms(const at::Tensor& whole, const ParameterSplit& split, int count,
                                int shares, int owners) {
  std::vector<double> norms;
  for (int share = 0; share < shares; ++share) {
    ParameterInfo info;
    info.name = "w";
    info.global_shape = whole.sizes().vec();
    info.split = split;
    info.slices = {share * count / shares, (share + 1) * count / shares, count};
    std::vector<at::Tensor> parts;
    for (const detail::Cut& cut : detail::cuts_of(info.global_shape, split, info.slices, "w"))
      parts.push_back(whole.narrow(split.dim, cut.begin, cut.size()));
    const at::Tensor held = at::cat(parts, split.dim).contiguous();
    info.tensor = held;
    SliceSquares all(static_cast<std::size_t>(info.slices.size()));
    for (const auto& ranges : divide_blocks({block_ends(info)}, {0}, owners)) {
      for (const ElementRange& range : ranges) {
        const SliceSquares some = slice_squares(info, elements_of(held, range), range.begin);
        for (std::size_t s = 0; s < all.size(); ++s)
          all[s].insert(all[s].end(), some[s].begin(), some[s].end());
      }
    }
    for (const std::vector<double>& squares : all) norms.push_back(norm_of_blocks(squares));
  }
  return norms;
}

TEST(BlockRangesTest, NormsOfSlicesDoNotDependOnWhoHasThem) {
  struct Case {
    std::vector<std::int64_t> shape;
    ParameterSplit split;
  };
  const std::vector<Case> cases = {
      {{700, 300}, {.dim = 0}},
      {{700, 300}, {.dim = 1}},
      {{900, 120}, {.dim = 0, .sections = {500, 300, 100}}},
      {{130, 900}, {.dim = 1, .sections = {300, 300, 300}}},
      {{6, 210, 130}, {.dim = 1}},
      {{70'003}, {.dim = 0}},
      {{3, 2}, {.dim = 1}},
  };
  for (const auto& [shape, split] : cases) {
    const at::Tensor whole = at::randn(shape);
    const std::vector<double> expected = slice_norms(whole, split, 4, 1, 1);
    EXPECT_EQ(expected.size(), 4U);
    const double norm = whole.to(at::kDouble).norm().item<double>();
    EXPECT_NEAR(combine_norms(expected), norm, 1e-6 * norm);
    for (const int shares : {1, 2, 4}) {
      for (const int owners : {1, 2, 3, 5})
        EXPECT_EQ(slice_norms(whole, split, 4, shares, owners), expected)
            << shape << ": " << shares << ", " << owners;
    }
  }
}

TEST(BlockRangesTest, ALargeSliceFallsIntoBlocksThatSeveralOwnersHave) {
  for (const int dim : {0, 1}) {
    ParameterInfo info;
    info.global_shape = {800, 800};
    info.split = {.dim = dim};
    info.slices = {0, 2, 4};
    info.tensor = at::empty(dim == 0 ? std::vector<std::int64_t>{400, 800}
                                     : std::vector<std::int64_t>{800, 400});
    std::int64_t begin = 0;
    for (const std::int64_t end : block_ends(info)) {
      EXPECT_GT(end, begin);
      EXPECT_LE(end - begin, 2 * kGradientBlock);
      begin = end;
    }
    EXPECT_EQ(begin, info.tensor.numel());
  }
}

TEST(BlockRangesTest, APartIsAViewOfWhatIsContiguous) {
  const at::Tensor whole = at::arange(12, at::kFloat).view({3, 4});
  at::Tensor part = elements_of(whole, {0, 4, 8});
  EXPECT_EQ(part.data_ptr(), whole[1].data_ptr());
  set_elements(whole, {0, 8, 12}, at::zeros({4}));
  EXPECT_EQ(whole[2].sum().item<float>(), 0);
  const at::Tensor turned = at::arange(6, at::kFloat).view({2, 3}).t();
  set_elements(turned, {0, 0, 6}, elements_of(turned, {0, 0, 6}) * 2);
  EXPECT_TRUE(at::equal(turned, at::arange(6, at::kFloat).view({2, 3}).t() * 2));
}

TEST(PackedPartsTest, AMessageLiesInTheMemoryOfAnEarlierOneThatIsLargeEnough) {
  const at::Tensor earlier = pack_parts({at::ones({100}), at::ones({7})}, at::kCPU);
  const std::vector<at::Tensor> parts = {at::arange(100, at::kFloat), at::Tensor()};
  const at::Tensor packed = pack_parts(parts, at::kCPU, earlier);
  EXPECT_EQ(packed.data_ptr(), earlier.data_ptr());
  const auto unpacked = unpack_parts(packed, {{100, at::kFloat}, {7, at::kFloat}});
  EXPECT_TRUE(at::equal(unpacked[0], parts[0]));
  EXPECT_FALSE(unpacked[1].defined());
  EXPECT_NE(pack_parts({at::ones({1000})}, at::kCPU, earlier).data_ptr(), earlier.data_ptr());
}

TEST(PackedPartsTest, PartsComeOutAsTheyWentIn) {
  const std::vector<at::Tensor> parts = {at::arange(5, at::kFloat), at::Tensor(),
                                         at::arange(3, at::kDouble), at::empty({0}),
                                         at::arange(1, at::kBFloat16)};
  std::vector<PartMeta> metas;
  for (const at::Tensor& part : parts)
    metas.push_back(part.defined() ? PartMeta{part.numel(), part.scalar_type()} : PartMeta{9});
  const at::Tensor packed = pack_parts(parts, at::kCPU);
  const std::vector<at::Tensor> out = unpack_parts(packed, metas);
  ASSERT_EQ(out.size(), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ASSERT_EQ(out[i].defined(), parts[i].defined()) << i;
    EXPECT_TRUE(!parts[i].defined() || at::equal(out[i], parts[i])) << i;
  }
  EXPECT_FALSE(pack_parts({}, at::kCPU).defined());
  EXPECT_TRUE(unpack_parts({}, {}).empty());
}

TEST(PackedPartsTest, AMessageOfOtherPartsIsRefused) {
  const at::Tensor packed = pack_parts({at::zeros({100})}, at::kCPU);
  for (const std::vector<PartMeta>& metas :
       {std::vector<PartMeta>{{101}}, {{99}, {1}}, {{20}}, {}}) {
    EXPECT_EQ(error_of([&] { unpack_parts(packed, metas); }).kind(), ErrorKind::kInternal);
  }
  EXPECT_EQ(error_of([&] { unpack_parts({}, {{1}}); }).kind(), ErrorKind::kInternal);
  EXPECT_EQ(error_of([&] { unpack_parts(packed.narrow(0, 0, 3), {{100}}); }).kind(),
            ErrorKind::kInternal);
}

}  // namespace
}  // namespace sluice::test::block_ranges_test
