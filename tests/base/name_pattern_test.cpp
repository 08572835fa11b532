#include "base/name_pattern.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(NamePatternTest, WithoutAStarTheWholeNameHasToMatch) {
  EXPECT_TRUE(matches_pattern("lm_head.weight", "lm_head.weight"));
  EXPECT_FALSE(matches_pattern("lm_head", "lm_head.weight"));
  EXPECT_FALSE(matches_pattern("head.weight", "lm_head.weight"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("", ""));
}

TEST(NamePatternTest, AStarStandsForAnyRunOfCharactersDotsIncluded) {
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("*", "model.norm.weight"));
  EXPECT_TRUE(matches_pattern("*.bias", "model.layers.0.mlp.up_proj.bias"));
  EXPECT_FALSE(matches_pattern("*.bias", "model.norm.weight"));
  EXPECT_TRUE(matches_pattern("model.layers.*.norm.*", "model.layers.12.norm.weight"));
  EXPECT_FALSE(matches_pattern("model.layers.*.norm.*", "model.norm.weight"));
  EXPECT_TRUE(matches_pattern("a**b", "ab"));
}

TEST(NamePatternTest, AnEarlyMatchOfAStarIsTakenBackWhenTheRestDoesNotFit) {
  EXPECT_TRUE(matches_pattern("*ab", "aab"));
  EXPECT_TRUE(matches_pattern("*norm*weight", "model.norm.norm_weight"));
  EXPECT_FALSE(matches_pattern("*abc", "abcab"));
}

TEST(NamePatternTest, OneOfSeveralPatternsIsEnough) {
  EXPECT_TRUE(matches_any({"*.bias", "*norm.weight"}, "model.norm.weight"));
  EXPECT_FALSE(matches_any({"*.bias", "*norm.weight"}, "lm_head.weight"));
  EXPECT_FALSE(matches_any({}, "lm_head.weight"));
}

}  // namespace
}  // namespace sluice
