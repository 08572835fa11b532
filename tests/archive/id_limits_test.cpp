#include "archive/id_limits.h"

#include <gtest/gtest.h>

#include "support/graph_builder.h"

namespace sluice::detail {
namespace {

using test::GraphBuilder;
using test::Value;

class IdLimitsTest : public ::testing::Test {
 protected:
  IdLimitsTest() {
    graph_.batch("ids", {"s0", "s1"}, "int64");
    graph_.input(GraphInput::Kind::kParameter, "table", {"77", "8"});
    graph_.tensor("scores", {"s2", "9"});
    for (const char* name : {"moved", "flat"}) graph_.tensor(name, {"s0", "s1"}, "int64");
  }
  void look_up(const std::string& ids) {
    graph_.node("aten.embedding.default", {{"weight", Value{"table"}}, {"indices", Value{ids}}},
                {"rows of " + ids});
  }
  void take_loss(const std::string& target, const GraphBuilder::Arguments& more = {}) {
    GraphBuilder::Arguments arguments = {{"self", Value{"scores"}}, {"target", Value{target}}};
    arguments.insert(arguments.end(), more.begin(), more.end());
    graph_.node("aten.cross_entropy_loss.default", arguments, {"loss of " + target});
  }
  std::optional<IdLimit> limit() const { return id_limit(graph_.module, graph_.find("ids")); }

  GraphBuilder graph_;
};

TEST_F(IdLimitsTest, AnInputThatNoTableReadsHasNone) { EXPECT_FALSE(limit()); }

TEST_F(IdLimitsTest, IdsAreBelowTheRowsOfTheirTable) {
  look_up("ids");
  ASSERT_TRUE(limit());
  EXPECT_EQ(limit()->below, 77);
  EXPECT_FALSE(limit()->ignored);
}

TEST_F(IdLimitsTest, ViewsAndCopiesOfAnInputAreTheInput) {
  graph_.node("aten.transpose.int", {{"self", Value{"ids"}}, {"dim0", 0}, {"dim1", 1}}, {"moved"});
  graph_.node("aten.reshape.default", {{"self", Value{"moved"}}}, {"flat"});
  look_up("flat");
  ASSERT_TRUE(limit());
  EXPECT_EQ(limit()->below, 77);
}

TEST_F(IdLimitsTest, ComputedValuesDoNotLimitTheInput) {
  for (const char* target : {"aten.remainder.Scalar", "aten.slice.Tensor", "aten.clamp.default"}) {
    graph_.node(target, {{"self", Value{"ids"}}, {"other", 77}}, {"moved"});
  }
  look_up("moved");
  EXPECT_FALSE(limit());
}

TEST_F(IdLimitsTest, AnInputThatIsWrittenInPlaceHasNone) {
  graph_.node("aten.clone.default", {{"self", Value{"ids"}}}, {"moved"});
  graph_.node("aten.masked_fill_.Scalar", {{"self", Value{"moved"}}, {"value", 0}}, {"filled"});
  look_up("moved");
  EXPECT_FALSE(limit());
}

TEST_F(IdLimitsTest, ALossLeavesOneLabelOut) {
  take_loss("ids");
  EXPECT_EQ(limit()->below, 9);
  EXPECT_EQ(limit()->ignored, -100);
}

TEST_F(IdLimitsTest, ALossMayNameTheLabelThatItLeavesOut) {
  take_loss("ids", {{"ignore_index", -1}});
  EXPECT_EQ(limit()->ignored, -1);
}

TEST_F(IdLimitsTest, TakesSmallestLimitOfAllReaders) {
  take_loss("ids");
  look_up("ids");
  EXPECT_EQ(limit()->below, 9);
  EXPECT_FALSE(limit()->ignored);
}

}  // namespace
}  // namespace sluice::detail
