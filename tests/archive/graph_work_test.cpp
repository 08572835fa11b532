// Counts allocations, because time depends on the machine.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "archive/written_graph.h"
#include "support/counted_allocations.h"

namespace sluice::detail {
namespace {

using test::Modules;
using test::Value;
using test::WrittenGraph;

// x0 = table[ids], then `links` nodes, then logits computed from the last node.
WrittenGraph chain(int links, const std::function<void(WrittenGraph&, int i)>& add_link) {
  WrittenGraph graph;
  graph.batch("input_ids", {"s0", "s1"}, "int64");
  graph.parameter("words.weight", {16, 4});
  graph.parameter("mix.weight", {4, 4});
  graph.parameter("head.weight", {16, 4});
  graph.add({{"words", "m.Words"}}, "aten.embedding.default",
            {{"weight", Value{"words.weight"}}, {"indices", Value{"input_ids"}}}, "x0");
  for (int i = 0; i < links; ++i) add_link(graph, i);
  graph.linear({{"head", "m.Head"}}, "x" + std::to_string(links), "head.weight", "logits_value",
               {"s0", "s1", "16"});
  graph.result("logits", "logits_value");
  return graph;
}

std::int64_t allocations_of(const WrittenGraph& graph) {
  return test::allocations_of([&] { graph.described(); }).count;
}

void expect_linear(const std::function<void(WrittenGraph&, int i)>& add_link) {
  const std::int64_t few = allocations_of(chain(200, add_link));
  const std::int64_t many = allocations_of(chain(800, add_link));
  EXPECT_GT(few, 200);
  EXPECT_LT(many, 5 * few);
}

std::string name_of(int i) { return "x" + std::to_string(i); }

TEST(GraphWorkTest, NodesOfNoModuleTakeWorkInProportion) {
  expect_linear([](WrittenGraph& graph, int i) {
    graph.add({}, "aten.mul.Scalar", {{"self", Value{name_of(i)}}, {"other", 2}}, name_of(i + 1));
  });
}

TEST(GraphWorkTest, UsesOfOneParameterTakeWorkInProportion) {
  expect_linear([](WrittenGraph& graph, int i) {
    graph.linear(test::in_block(i), name_of(i), "mix.weight", name_of(i + 1));
  });
}

TEST(GraphWorkTest, LayersThatReadOneValueTakeWorkInProportion) {
  expect_linear([](WrittenGraph& graph, int i) {
    const std::string half = "half" + std::to_string(i);
    const std::string path =
        // too long for the small-string buffer, so a copy allocates
        "blocks_with_a_long_name." + std::to_string(i);
    const Modules block = {{path, "m.Block"}};
    graph.add(block, "aten.add.Tensor", {{"self", Value{name_of(i)}}, {"other", Value{"x0"}}},
              half);
    graph.add(block, "aten.mul.Tensor", {{"self", Value{half}}, {"other", Value{"x0"}}},
              name_of(i + 1));
  });
}

TEST(GraphWorkTest, WritesInPlaceTakeWorkInProportion) {
  expect_linear([](WrittenGraph& graph, int i) {
    graph.add({}, "aten.mul_.Scalar", {{"self", Value{name_of(i)}}, {"other", 2}}, name_of(i + 1));
  });
}

}  // namespace
}  // namespace sluice::detail
