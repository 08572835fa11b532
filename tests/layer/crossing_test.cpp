#include <gtest/gtest.h>

#include "layer/crossing.h"
#include "sluice/error.h"
#include "sluice/layer.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

LayerSpec layer(const std::string& name, Names reads, Names writes) {
  LayerSpec spec;
  spec.name = name;
  spec.reads = std::move(reads);
  spec.writes = std::move(writes);
  return spec;
}

std::vector<LayerSpec> skip_model() {
  return {layer("embed", {"input_ids"}, {"hidden", "mask"}),
          layer("a", {"hidden"}, {"hidden", "skip"}), layer("b", {"hidden", "mask"}, {"hidden"}),
          layer("c", {"hidden", "skip", "labels"}, {"hidden"})};
}

TEST(CrossingTest, RelaysAValueOverTheStagesBetweenWriterAndReader) {
  const auto crossing =
      values_crossing_cuts(skip_model(), {1, 2, 3}, {"input_ids", "labels"}, {"hidden"});
  EXPECT_EQ(crossing[0], (Names{"hidden", "mask"}));
  EXPECT_EQ(crossing[1], (Names{"hidden", "mask", "skip"}));
  EXPECT_EQ(crossing[2], (Names{"hidden", "skip"}));
}

TEST(CrossingTest, BatchInputsNeverCross) {
  const auto crossing = values_crossing_cuts(
      {layer("a", {"x"}, {"h"}), layer("b", {"h", "x"}, {"h"})}, {1}, {"x"}, {"h"});
  EXPECT_EQ(crossing[0], Names{"h"});
}

TEST(CrossingTest, AValueThatIsWrittenAnewDoesNotCross) {
  const auto crossing = values_crossing_cuts(
      {layer("a", {"x"}, {"h", "t"}), layer("b", {"h"}, {"t"}), layer("c", {"t"}, {"h"})}, {1, 2},
      {"x"}, {"h"});
  EXPECT_EQ(crossing[0], Names{"h"});
  EXPECT_EQ(crossing[1], Names{"t"});
}

TEST(CrossingTest, FinalOutputsCrossEveryLaterCut) {
  const auto crossing = values_crossing_cuts(
      {layer("a", {"x"}, {"aux", "h"}), layer("b", {"h"}, {"h"}), layer("c", {"h"}, {"h"})},
      {1, 2, 3}, {"x"}, {"h", "aux"});
  for (const Names& names : crossing) EXPECT_EQ(names, (Names{"aux", "h"}));
}

TEST(CrossingTest, RefusesAValueThatNobodyWrote) {
  try {
    values_crossing_cuts({layer("a", {"x"}, {"hidden"}), layer("b", {"hiden"}, {"y"})}, {1}, {"x"},
                         {"y"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "layer 'b' reads 'hiden', which no earlier layer writes; values of the model; did "
                 "you mean 'hidden'?");
  }
}

TEST(CrossingTest, RefusesWritingABatchInputAndCutsOutsideTheModel) {
  EXPECT_THROW(values_crossing_cuts({layer("a", {"x"}, {"x"})}, {}, {"x"}, {}), Error);
  EXPECT_THROW(values_crossing_cuts({layer("a", {"x"}, {"h"})}, {2}, {"x"}, {"h"}), Error);
  EXPECT_THROW(values_crossing_cuts({layer("a", {"x"}, {"h"})}, {-1}, {"x"}, {"h"}), Error);
}

}  // namespace
}  // namespace sluice
