#include "graph/check_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"
#include "support/graph_builder.h"

namespace sluice::test::check_rules_test {
namespace {

using detail::check_rules;
using detail::InputSizes;
using detail::SizeRule;

GraphModule module_with_rules() {
  GraphBuilder graph;
  graph.batch("ids", {"s0", "s1"}, "int64");
  graph.batch("labels", {"s0", "2*s1"}, "int64");
  graph.batch("pixels", {"3"});
  graph.module.ranges = {{"s0", 2, 64}, {"s1", 2}};
  graph.module.rules = {SizeRule::parse("L['ids'].size()[1] % 4 == 0")};
  return graph.module;
}

std::string refusal(const InputSizes& sizes) {
  const Error error = error_of([&] { check_rules(module_with_rules(), sizes); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  return error.fact() + "; " + error.where();
}

TEST(CheckRulesTest, SizesThatTheGraphHasPass) {
  EXPECT_NO_THROW(
      check_rules(module_with_rules(), {{"ids", {2, 8}}, {"labels", {2, 16}}, {"pixels", {3}}}));
  EXPECT_NO_THROW(check_rules(module_with_rules(), {{"pixels", {3}}}));
  EXPECT_NO_THROW(check_rules(module_with_rules(), {{"labels", {2, 7}}}));
}

TEST(CheckRulesTest, OthersAreRefusedByInputAndRule) {
  EXPECT_EQ(refusal({{"pixels", {4}}}),
            "input 'pixels' has size 4 in dimension 0, but the graph was exported for 3; input "
            "'pixels' [4]");
  EXPECT_EQ(
      refusal({{"ids", {2, 8}}, {"labels", {3, 16}}}),
      "input 'labels' has size 3 in dimension 0, but the graph was exported for s0, here 2; input "
      "'ids' [2, 8], input 'labels' [3, 16]");
  EXPECT_EQ(
      refusal({{"ids", {2, 8}}, {"labels", {2, 17}}}),
      "input 'labels' has size 17 in dimension 1, but the graph was exported for 2*s1, here 16; "
      "input 'ids' [2, 8], input 'labels' [2, 17]");
  EXPECT_EQ(refusal({{"ids", {65, 8}}}),
            "size s0 is 65, but the graph was exported for 2 to 64; input 'ids' [65, 8]");
  EXPECT_EQ(refusal({{"ids", {2, 1}}}),
            "size s1 is 1, but the graph was exported for at least 2; input 'ids' [2, 1]");
  EXPECT_EQ(refusal({{"ids", {2, 6}}}),
            "the sizes of the batch break the rule 'L['ids'].size()[1] % 4 == 0' of the exported "
            "graph; input 'ids' [2, 6]");
  EXPECT_EQ(refusal({{"ids", {2}}}),
            "input 'ids' has 1 dimension, but the graph was exported for 2; input 'ids' [2]");
}

}  // namespace
}  // namespace sluice::test::check_rules_test
