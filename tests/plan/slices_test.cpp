#include "plan/slices.h"

#include <gtest/gtest.h>

#include "plan/shard_tree.h"
#include "sluice/error.h"
#include "support/expect_error.h"

namespace sluice::detail {
namespace {

using test::error_of;

TEST(SlicesTest, SlicesOfASectionCoverItInOrder) {
  for (const std::int64_t length : {0, 1, 3, 688, 4099}) {
    for (const int count : {1, 2, 3, 4, 8}) {
      std::int64_t end = 0;
      for (int slice = 0; slice < count; ++slice) {
        const Cut cut = cut_of(length, {slice, slice + 1, count});
        EXPECT_EQ(cut.begin, end);
        EXPECT_LE(cut.size(), length / count + 1);
        end = cut.end;
      }
      EXPECT_EQ(end, length);
    }
  }
}

TEST(SlicesTest, ARanksPartHasABoxOfEverySection) {
  const ParameterSplit qkv = {.dim = 0, .sections = {32, 8, 8}};
  EXPECT_EQ(cuts_of({48, 16}, qkv, {1, 2, 4}, "w"),
            (std::vector<Cut>{{8, 16}, {34, 36}, {42, 44}}));
  EXPECT_EQ(sliced_shape({48, 16}, qkv, {1, 2, 4}, "w"), (std::vector<std::int64_t>{12, 16}));
  EXPECT_EQ(sliced_shape({48, 16}, {.dim = 1}, {2, 4, 4}, "w"), (std::vector<std::int64_t>{48, 8}));
}

TEST(SlicesTest, EachRankHasOneSubtree) {
  for (int slices = 1; slices <= 24; ++slices) {
    for (int degree = 1; degree <= slices; ++degree) {
      bool one_subtree = slices % degree == 0;
      for (int rank = 0; one_subtree && rank < degree; ++rank) {
        const SliceRange own = slices_of(rank, {.degree = degree, .slices = slices});
        one_subtree = largest_subtrees({own.begin, own.end}, slices).size() == 1;
      }
      EXPECT_EQ(may_share(degree, slices), one_subtree) << degree << " of " << slices;
    }
  }
}

TEST(SlicesTest, ADegreeThatCannotShareTheSlicesIsRefusedWithTheNearest) {
  const auto refusal = [](const TensorParallel& options) {
    const Error error = error_of([&] { check_tensor_parallel(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return std::string(error.what());
  };
  const auto expect = [](const std::string& refused, const std::string& why) {
    EXPECT_NE(refused.find(why), std::string::npos) << refused;
  };
  expect(refusal({.degree = 3, .slices = 6}), "the nearest is 2 or 6");
  expect(refusal({.degree = 8, .slices = 4}), "the nearest is 4");
  expect(refusal({.degree = 3, .slices = 4}), "the nearest is 2 or 4");
  expect(refusal({.degree = 0}), "give at least 1");
  expect(refusal({.slices = -1}), "give 0 to use the degree, or more");
  check_tensor_parallel({});
  check_tensor_parallel({.degree = 3});
  check_tensor_parallel({.degree = 2, .slices = 6});
}

TEST(SlicesTest, SlicesDivideWhatIsNotCut) {
  const Error error = error_of([] { require_whole_units({.slices = 4}, 6, "key-value heads"); });
  const std::string refused = error.what();
  EXPECT_NE(refused.find("`tensor_parallel.slices` = 4 does not divide 6 key-value heads"),
            std::string::npos)
      << refused;
  EXPECT_NE(refused.find("the nearest is 3 or 6"), std::string::npos) << refused;
  const Error of_degree = error_of([] { require_whole_units({.degree = 4}, 6, "heads"); });
  EXPECT_NE(std::string(of_degree.what()).find("`tensor_parallel.degree` = 4 does not divide 6"),
            std::string::npos)
      << of_degree.what();
  require_whole_units({.slices = 3}, 6, "key-value heads");
  require_whole_units({.slices = 3}, 0, "rows");
}

}  // namespace
}  // namespace sluice::detail
