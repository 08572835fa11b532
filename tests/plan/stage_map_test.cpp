#include "sluice/parts/layout.h"

#include <gtest/gtest.h>

namespace sluice::stage_map_test {
namespace {

using Stages = std::vector<int>;

TEST(StageMapTest, SaysTheRankOfAStageAndTheStagesOfARank) {
  const StageMap map(3, {0, 1, 0, 0});
  EXPECT_EQ(map.num_ranks(), 3);
  EXPECT_EQ(map.num_stages(), 4);
  EXPECT_EQ(map.rank_of(1), 1);
  EXPECT_EQ(map.stages_of(0), (Stages{0, 2, 3}));
  EXPECT_EQ(map.stages_of(2), Stages{});
  EXPECT_EQ(map.stages_per_rank(), 3);
}

TEST(StageMapTest, AStageThatDoesNotExistLivesNowhere) {
  const StageMap map(2, {0, StageMap::kNowhere});
  EXPECT_EQ(map.rank_of(-1), StageMap::kNowhere);
  EXPECT_EQ(map.rank_of(1), StageMap::kNowhere);
  EXPECT_EQ(map.rank_of(2), StageMap::kNowhere);
  EXPECT_EQ(map.stages_per_rank(), 1);
}

TEST(StageMapTest, KnowsLoopsAndVs) {
  EXPECT_TRUE(StageMap(2, {0, 1, 0, 1}).is(Placement::kLoop));
  EXPECT_FALSE(StageMap(2, {0, 1, 0, 1}).is(Placement::kV));
  EXPECT_TRUE(StageMap(2, {0, 1, 1, 0, 0, 1}).is(Placement::kV));
  EXPECT_FALSE(StageMap(2, {0, 1, 1}).is(Placement::kV));
  EXPECT_TRUE(StageMap(2, {0, 1}).is(Placement::kV));
  EXPECT_FALSE(StageMap().is(Placement::kLoop));
}

}  // namespace
}  // namespace sluice::stage_map_test
