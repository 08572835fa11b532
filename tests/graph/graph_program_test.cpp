#include "graph/graph_program.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "layer/autocast.h"
#include "layer/casted_weights.h"
#include "layer/gradient_sum.h"
#include "layer/graph_backward.h"
#include "layer/keyed_stream.h"
#include "sluice/layer.h"
#include "sluice/parts/chunk.h"
#include "support/expect_error.h"
#include "support/graph_builder.h"

namespace sluice::test::graph_program_test {
namespace {

using detail::GraphProgram;
using Tensors = std::vector<at::Tensor>;
using Names = std::vector<std::string>;
using Items = GraphBuilder::Items;
using Arguments = GraphBuilder::Arguments;

GraphProgram program_of(const GraphBuilder& graph, const Names& reads, const Names& writes,
                        const Names& held = {}, const std::vector<GraphOperator>& added = {}) {
  return {graph.module,         graph.all_nodes(),      graph.find_all(reads),
          graph.find_all(held), graph.find_all(writes), added};
}

Tensors results_of(const std::string& target, const Arguments& arguments, const Tensors& read,
                   const Names& results = {"y"}) {
  GraphBuilder graph;
  Names reads;
  for (std::size_t i = 0; i < read.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    Names sizes;
    for (const std::int64_t size : read[i].sizes()) sizes.push_back(std::to_string(size));
    graph.tensor(name, sizes);
    reads.push_back(name);
  }
  graph.node(target, arguments, results);
  return program_of(graph, reads, results).run(read, {}, {});
}

at::Tensor result_of(const std::string& target, const Arguments& arguments, const Tensors& read) {
  return results_of(target, arguments, read).front();
}

void expect_same(const at::Tensor& found, const at::Tensor& expected) {
  EXPECT_EQ(found.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(at::equal(found, expected)) << found << expected;
}

const Value kA{"a"}, kB{"b"};
at::Tensor numbers() { return at::arange(6, at::kFloat).view({2, 3}) - 2.5; }

TEST(GraphArgumentsTest, AWholeNumberIsAFloatWhereTheOperatorTakesOne) {
  expect_same(
      result_of("aten.dropout.default", {{"input", kA}, {"p", 0}, {"train", true}}, {numbers()}),
      numbers());
  expect_same(
      result_of("aten.nan_to_num.default", {{"self", kA}, {"nan", 3}}, {at::full({2}, NAN)}),
      at::full({2}, 3.0));
}

TEST(GraphArgumentsTest, ANumberForATensorTakesPartAsANumber) {
  expect_same(result_of("aten.mul.Tensor", {{"self", kA}, {"other", 0.1}}, {numbers()}),
              numbers() * 0.1);
  const at::Tensor half = numbers().to(at::kBFloat16);
  expect_same(result_of("aten.add.Tensor", {{"self", kA}, {"other", 2}}, {half}), half + 2);
  const at::Tensor whole = at::arange(4);
  expect_same(result_of("aten.mul.Tensor", {{"self", kA}, {"other", true}}, {whole}), whole * true);
  expect_same(result_of("aten.maximum.default", {{"self", kA}, {"other", 1}}, {numbers()}),
              at::maximum(numbers(), at::ones({})));
}

TEST(GraphArgumentsTest, NumbersOfAnyKindAreScalars) {
  expect_same(result_of("aten.pow.Tensor_Scalar", {{"self", kA}, {"exponent", 2}}, {numbers()}),
              numbers().pow(2));
  expect_same(
      result_of("aten.leaky_relu.default", {{"self", kA}, {"negative_slope", 0.2}}, {numbers()}),
      at::leaky_relu(numbers(), 0.2));
  expect_same(
      result_of("aten.full_like.default", {{"self", kA}, {"fill_value", true}}, {numbers()}),
      at::ones({2, 3}));
}

TEST(GraphArgumentsTest, OneNumberStandsForAListOfThatLength) {
  const at::Tensor image = at::randn({1, 1, 6, 6}), weight = at::randn({1, 1, 3, 3});
  expect_same(
      result_of("aten.conv2d.default",
                {{"input", kA}, {"weight", kB}, {"bias", None()}, {"stride", 2}}, {image, weight}),
      at::conv2d(image, weight, {}, {2, 2}));
  expect_same(
      result_of("aten.mean.dim", {{"self", kA}, {"dim", 1}, {"keepdim", true}}, {numbers()}),
      numbers().mean(1, true));
}

TEST(GraphArgumentsTest, TensorsAreOptionalTensorsInAList) {
  const at::Tensor rows = at::tensor({1, 0, 1});
  expect_same(result_of("aten.index.Tensor", {{"self", kA}, {"indices", Items{Value{"b"}}}},
                        {numbers(), rows}),
              numbers().index({rows}));
  expect_same(result_of("aten.index.Tensor", {{"self", kA}, {"indices", Items{None(), Value{"b"}}}},
                        {numbers(), rows}),
              numbers().index({torch::indexing::Slice(), rows}));
}

TEST(GraphArgumentsTest, ListsTextsAndWords) {
  expect_same(result_of("aten.cat.default", {{"tensors", Items{kA, kB, kA}}, {"dim", -1}},
                        {numbers(), numbers()}),
              at::cat({numbers(), numbers(), numbers()}, -1));
  expect_same(result_of("aten.stack.default", {{"tensors", Items{kA, kB}}}, {numbers(), numbers()}),
              at::stack({numbers(), numbers()}));
  expect_same(result_of("aten.gelu.default", {{"self", kA}, {"approximate", "tanh"}}, {numbers()}),
              at::gelu(numbers(), "tanh"));
  expect_same(result_of("aten.to.dtype", {{"self", kA}, {"dtype", Dtype{"bfloat16"}}}, {numbers()}),
              numbers().to(at::kBFloat16));
  expect_same(result_of("aten.zeros.default",
                        {{"size", Items{2, 3}},
                         {"dtype", Dtype{"int64"}},
                         {"layout", LayoutName{"strided"}},
                         {"device", DeviceName{"cuda:0"}},
                         {"pin_memory", false}},
                        {}),
              at::zeros({2, 3}, at::kLong));
  const at::Tensor image = at::randn({1, 2, 3, 3});
  EXPECT_TRUE(result_of("aten.clone.default",
                        {{"self", kA}, {"memory_format", MemoryFormatName{"channels_last"}}},
                        {image})
                  .is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(GraphArgumentsTest, DevicesAreThoseOfTheParameters) {
  GraphBuilder graph;
  graph.tensor("x", {"2"});
  graph.tensor("w", {"2"});
  const GraphBuilder::Item cpu = DeviceName{"cpu"};
  graph.node("aten.arange.default", {{"end", 3}, {"device", cpu}}, {"boxed"});
  graph.node("aten.to.dtype_layout", {{"self", Value{"w"}}, {"device", cpu}}, {"direct"});
  const at::Tensor x = at::ones({2}), w = at::ones({2}, at::kMeta);
  const Tensors by_held = program_of(graph, {"x"}, {"boxed", "direct"}, {"w"}).run({x}, {w}, {});
  EXPECT_TRUE(by_held[0].is_meta());
  EXPECT_TRUE(by_held[1].is_meta());
  EXPECT_TRUE(program_of(graph, {"x", "w"}, {"boxed"}).run({x, x}, {}, {})[0].is_cpu());
}

TEST(GraphArgumentsTest, ResultsAreSeveralOrAList) {
  const Tensors top =
      results_of("aten.topk.default", {{"self", kA}, {"k", 2}}, {numbers()}, {"values", "places"});
  expect_same(top[0], std::get<0>(numbers().topk(2)));
  expect_same(top[1], std::get<1>(numbers().topk(2)));
  GraphBuilder graph;
  graph.tensor("a", {"2", "3"});
  graph.list_node("aten.unbind.int", {{"self", kA}, {"dim", 1}}, {"p", "q", "r"});
  const Tensors parts = program_of(graph, {"a"}, {"r", "p"}).run({numbers()}, {}, {});
  expect_same(parts[0], numbers().select(1, 2));
  expect_same(parts[1], numbers().select(1, 0));
}

TEST(GraphArgumentsTest, FrequentOperatorsHaveTheBitsOfTheirFunctions) {
  const at::Tensor x = at::randn({2, 4, 8}), w = at::randn({8, 8}), b = at::randn({8});
  const at::Tensor q = at::randn({2, 2, 4, 4});
  using torch::indexing::Slice;
  expect_same(result_of("aten.linear.default", {{"input", kA}, {"weight", kB}}, {x, w}),
              at::linear(x, w));
  expect_same(result_of("aten.linear.default",
                        {{"input", kA}, {"weight", kB}, {"bias", Value{"c"}}}, {x, w, b}),
              at::linear(x, w, b));
  expect_same(result_of("aten.layer_norm.default",
                        {{"input", kA}, {"normalized_shape", Items{8}}, {"weight", kB}}, {x, b}),
              at::layer_norm(x, {8}, b));
  expect_same(result_of("aten.view.default", {{"self", kA}, {"size", Items{2, -1}}}, {x}),
              x.view({2, -1}));
  expect_same(
      result_of("aten.slice.Tensor", {{"self", kA}, {"dim", 2}, {"start", 1}, {"end", 6}}, {x}),
      x.slice(2, 1, 6));
  expect_same(result_of("aten.expand.default", {{"self", kA}, {"size", Items{3, 8}}}, {b}),
              b.expand({3, 8}));
  expect_same(
      result_of("aten.softmax.int", {{"self", kA}, {"dim", -1}, {"dtype", Dtype{"float64"}}}, {x}),
      x.softmax(-1, at::kDouble));
  expect_same(result_of("aten.embedding.default", {{"weight", kA}, {"indices", kB}},
                        {w, at::tensor({3, 1})}),
              w.index_select(0, at::tensor({3, 1})));
  expect_same(
      result_of(
          "aten.scaled_dot_product_attention.default",
          {{"query", kA}, {"key", kB}, {"value", Value{"c"}}, {"is_causal", true}, {"scale", 0.25}},
          {q, q, q}),
      at::scaled_dot_product_attention(q, q, q, {}, 0, true, 0.25));
  expect_same(result_of("aten.sub.Tensor", {{"self", kA}, {"other", kB}, {"alpha", 3}}, {x, b}),
              at::sub(x, b, 3));
}

// ---- numbers and sizes ----

TEST(GraphSizesTest, NumbersThatFollowFromSizesTakeNoCall) {
  GraphBuilder graph;
  graph.batch("x", {"s0", "s1"});
  graph.number("rows", "s0");
  graph.number("twice", "2*s1");
  graph.node("aten.sym_size.int", {{"self", Value{"x"}}, {"dim", 0}}, {"rows"});
  graph.node("_operator.mul", {{"a", 2}, {"b", Value{"rows"}}}, {"twice"});
  graph.node("aten.new_zeros.default",
             {{"self", Value{"x"}}, {"size", Items{Value{"rows"}, 1, Value{"twice"}}}}, {"y"});
  graph.node("aten.mul.Tensor", {{"self", Value{"y"}}, {"other", Value{"twice"}}}, {"z"});
  const GraphProgram program = program_of(graph, {"x"}, {"y", "z", "twice"});
  EXPECT_EQ(program.num_calls(), 2U);
  for (const std::int64_t length : {3, 5, 3}) {
    const Tensors written = program.run({at::ones({2, length})}, {}, {});
    EXPECT_EQ(written[0].sizes(), (at::IntArrayRef{2, 1, 2 * length}));
    EXPECT_EQ(written[1].scalar_type(), at::kFloat);
    EXPECT_EQ(written[2].item<std::int64_t>(), 2 * length);
  }
}

TEST(GraphSizesTest, NumbersThatDoNotAreComputedByTheirNodes) {
  GraphBuilder graph;
  graph.batch("x", {"4"}, "int64");
  graph.number("u", "u0");
  graph.number("more", "u0 + 3");
  graph.number("is_more", "", GraphValue::Kind::kBool);
  graph.node("aten.item.default", {{"self", Value{"first"}}}, {"u"});
  graph.node("aten.select.int", {{"self", Value{"x"}}, {"dim", 0}, {"index", 0}}, {"first"});
  std::swap(graph.module.nodes[0], graph.module.nodes[1]);
  graph.module.nodes[1].arguments[0].second.value = graph.find("first");
  graph.node("_operator.add", {{"a", Value{"u"}}, {"b", 3}}, {"more"});
  graph.node("_operator.ge", {{"a", Value{"more"}}, {"b", 4}}, {"is_more"});
  graph.node("aten._assert_scalar.default",
             {{"self", Value{"is_more"}}, {"assert_msg", "u is at least 1"}}, {});
  graph.node("aten.arange.default", {{"end", Value{"more"}}, {"device", DeviceName{"cpu"}}}, {"y"});
  const GraphProgram program = program_of(graph, {"x"}, {"y", "u"});
  const Tensors written = program.run({at::arange(2, 6)}, {}, {});
  expect_same(written[0], at::arange(5));
  expect_same(written[1], at::scalar_tensor(2, at::kLong));
  const Error error = error_of([&] { program.run({at::arange(-5, -1)}, {}, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(error.fact().find("u is at least 1"), std::string::npos) << error.what();
  // Here another program has computed the number.
  GraphBuilder later = graph;
  later.module.nodes.erase(later.module.nodes.begin(), later.module.nodes.end() - 1);
  expect_same(program_of(later, {"more"}, {"y"}).run({at::scalar_tensor(5, at::kLong)}, {}, {})[0],
              at::arange(5));
}

TEST(GraphSizesTest, ASizeThatIsNoSymbolIsTakenWhereItComesAgain) {
  GraphBuilder graph;
  graph.tensor("x", {"s0//2"});
  graph.number("half", "s0//2");
  graph.node("aten.zeros.default", {{"size", Items{Value{"half"}}}}, {"y"});
  EXPECT_EQ(program_of(graph, {"x"}, {"y"}).run({at::ones({7})}, {}, {})[0].size(0), 7);
}

TEST(GraphSizesTest, OtherSizesAreRefusedByName) {
  GraphBuilder graph;
  graph.batch("x", {"s0", "3"});
  graph.batch("mask", {"s0", "2*s0"}, "int64");
  graph.tensor("hidden", {"s0"});
  graph.node("aten.neg.default", {{"self", Value{"x"}}}, {"y"});
  const GraphProgram program = program_of(graph, {"x", "mask", "hidden"}, {"y"});
  const auto refusal = [&](at::IntArrayRef x, at::IntArrayRef mask, at::IntArrayRef hidden,
                           at::ScalarType dtype = at::kLong) {
    const Error error = error_of([&] {
      program.run({at::ones(x), at::ones(mask, dtype), at::ones(hidden)}, {}, {});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.fact();
  };
  EXPECT_NO_THROW(
      program.run({at::ones({4, 3}), at::ones({4, 8}, at::kLong), at::ones({4})}, {}, {}));
  EXPECT_EQ(refusal({4, 5}, {4, 8}, {4}),
            "input 'x' has size 5 in dimension 1, but the graph was exported for 3");
  EXPECT_EQ(refusal({4, 3}, {5, 8}, {4}),
            "input 'mask' has size 5 in dimension 0, but the graph was exported for s0, here 4");
  EXPECT_EQ(refusal({4, 3}, {4, 9}, {4}),
            "input 'mask' has size 9 in dimension 1, but the graph was exported for 2*s0, here 8");
  EXPECT_EQ(refusal({4, 3}, {4, 8}, {3}),
            "value 'hidden' has size 3 in dimension 0, but the graph was exported for s0, here 4");
  EXPECT_EQ(refusal({4, 3, 1}, {4, 8}, {4}),
            "input 'x' has 3 dimensions, but the graph was exported for 2");
  EXPECT_EQ(refusal({4, 3}, {4, 8}, {4}, at::kInt),
            "input 'mask' is int32, but the graph was exported for int64");
}

// ---- lifetime of values ----

TEST(GraphProgramTest, AnAreaWithoutGradientRecordsNone) {
  GraphBuilder graph;
  graph.tensor("x", {"3"});
  graph.node("aten.sin.default", {{"self", Value{"x"}}}, {"off"}).grad_mode =
      GraphNode::GradMode::kOff;
  graph.node("aten.sin.default", {{"self", Value{"x"}}}, {"on"});
  graph.node("aten.cos.default", {{"self", Value{"x"}}}, {"last"}).grad_mode =
      GraphNode::GradMode::kOff;
  const GraphProgram program = program_of(graph, {"x"}, {"off", "on", "last"});
  const at::Tensor x = at::ones({3}).requires_grad_(true);
  const Tensors written = program.run({x}, {}, {});
  EXPECT_FALSE(written[0].requires_grad());
  EXPECT_TRUE(written[1].requires_grad());
  EXPECT_FALSE(written[2].requires_grad());
  EXPECT_TRUE(at::GradMode::is_enabled());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(program.run({x}, {}, {})[1].requires_grad());
}

// A watch operator counts how many earlier values are still alive.
TEST(GraphProgramTest, AValueIsLetGoWithItsLastUse) {
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> seen;
  std::vector<int> num_alive;
  const GraphOperator watch{"test::watch", [&](const std::vector<c10::IValue>& arguments) {
                              int alive = 0;
                              for (const auto& storage : seen) alive += storage.expired() ? 0 : 1;
                              num_alive.push_back(alive);
                              const at::Tensor& tensor = arguments[0].toTensor();
                              seen.emplace_back(tensor.storage().getWeakStorageImpl());
                              return Tensors{tensor};
                            }};
  // Tries direct calls, boxed calls, and calls with lists.
  for (const std::string target : {"aten.add.Tensor", "aten.maximum.default", "list"}) {
    seen.clear();
    num_alive.clear();
    GraphBuilder graph;
    graph.tensor("x", {"100"});
    std::string last = "x";
    for (const std::string name : {"a", "b", "c"}) {
      if (target == "list") {
        graph.node("aten.cat.default", {{"tensors", Items{Value{last}, Value{last}}}}, {name});
      } else {
        graph.node(target, {{"self", Value{last}}, {"other", Value{last}}}, {name});
      }
      last = name + "_seen";
      graph.node("test.watch.default", {{"x", Value{name}}}, {last});
    }
    const Tensors written =
        program_of(graph, {"x"}, {last, "a"}, {}, {watch}).run({at::ones({100})}, {}, {});
    // The first value stays alive because it is an output. The second is freed before the third
    // exists.
    EXPECT_EQ(num_alive, (std::vector<int>{0, 1, 1})) << target;
    EXPECT_FALSE(seen[0].expired());
    EXPECT_TRUE(seen[1].expired());
  }
}

TEST(GraphProgramTest, AResultThatNothingReadsIsNotKept) {
  GraphBuilder graph;
  graph.tensor("x", {"4"});
  graph.node("aten.max.dim", {{"self", Value{"x"}}, {"dim", 0}}, {"most", ""});
  graph.node("aten.sin.default", {{"self", Value{"x"}}}, {"unread"});
  expect_same(program_of(graph, {"x"}, {"most"}).run({at::arange(4, at::kFloat)}, {}, {})[0],
              at::scalar_tensor(3.0));
}

TEST(GraphProgramTest, ThreadsRunOneProgramAtOnce) {
  GraphBuilder graph;
  graph.tensor("x", {"s0"});
  graph.number("twice", "2*s0");
  graph.node("aten.add.Tensor", {{"self", Value{"x"}}, {"other", Value{"twice"}}}, {"a"});
  graph.node("aten.sinh.default", {{"self", Value{"a"}}}, {"y"});
  const GraphProgram program = program_of(graph, {"x"}, {"y"});
  std::vector<std::thread> threads;
  std::vector<int> num_wrong(4);
  for (std::size_t thread = 0; thread < num_wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 200; ++i) {
        const std::int64_t size = 1 + (i * 7 + static_cast<std::int64_t>(thread)) % 40;
        const at::Tensor x = at::full({size}, 0.01);
        const at::Tensor y = program.run({x}, {}, {})[0];
        num_wrong[thread] += at::equal(y, at::sinh(x + 2 * size)) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, std::vector<int>(4));
}

TEST(GraphProgramTest, GradientsAreThoseOfTheSameCalls) {
  GraphBuilder graph;
  graph.tensor("x", {"s0", "4"});
  graph.tensor("w", {"4", "4"});
  graph.node("aten.linear.default", {{"input", Value{"x"}}, {"weight", Value{"w"}}}, {"h"});
  graph.node("aten.silu.default", {{"self", Value{"h"}}}, {"a"});
  graph.node("aten.mul.Tensor", {{"self", Value{"a"}}, {"other", Value{"h"}}}, {"y"});
  const at::Tensor x = at::randn({3, 4});
  const at::Tensor w = at::randn({4, 4}).requires_grad_(true);
  const Tensors written = program_of(graph, {"x"}, {"y"}, {"w"}).run({x}, {w}, {});
  const at::Tensor h = at::linear(x, w);
  const at::Tensor expected = torch::autograd::grad({(at::silu(h) * h).sum()}, {w})[0];
  expect_same(torch::autograd::grad({written[0].sum()}, {w})[0], expected);
}

// ---- random numbers ----

GraphBuilder random_graph() {
  GraphBuilder graph;
  graph.tensor("x", {"64"});
  const auto drop = [&](const std::string& from, const std::string& to, const std::string& path) {
    GraphBuilder::put_inside(
        graph.node("aten.dropout.default", {{"input", Value{from}}, {"p", 0.5}, {"train", true}},
                   {to}),
        path);
  };
  drop("x", "a", "block.first");
  graph.node("aten.neg.default", {{"self", Value{"x"}}}, {"n"});
  drop("x", "b", "block.second");
  drop("x", "c", "block.first");
  GraphBuilder::put_inside(graph.node("aten.rand_like.default", {{"self", Value{"x"}}}, {"d"}),
                           "block.first");
  return graph;
}

Tensors drawn(const std::vector<std::vector<int>>& groups, std::uint64_t seed, std::int64_t step,
              std::int64_t microbatch, const std::string& layer = "layer") {
  const GraphBuilder graph = random_graph();
  std::map<std::string, at::Tensor> results;
  const Names names{"a", "n", "b", "c", "d"};
  for (const std::vector<int>& nodes : groups) {
    const KeyedRandomScope scope(seed, step, layer + std::to_string(nodes.size()), microbatch);
    at::rand({static_cast<std::int64_t>(nodes.size())});
    Names writes;
    for (const int node : nodes) writes.push_back(names[static_cast<std::size_t>(node)]);
    const GraphProgram program(graph.module, nodes, graph.find_all({"x"}), {},
                               graph.find_all(writes), {});
    const Tensors written = program.run({at::ones({64})}, {}, {});
    for (std::size_t i = 0; i < writes.size(); ++i) results[writes[i]] = written[i];
  }
  return {results["a"], results["b"], results["c"], results["d"]};
}

int num_equal(const Tensors& a, const Tensors& b) {
  int equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += at::equal(a[i], b[i]) ? 1 : 0;
  return equal;
}

TEST(GraphRandomTest, NumbersDoNotDependOnHowNodesAreGrouped) {
  const Tensors whole = drawn({{0, 1, 2, 3, 4}}, 1, 2, 3);
  EXPECT_EQ(num_equal(drawn({{0}, {1, 2}, {3}, {4}}, 1, 2, 3), whole), 4);
  EXPECT_EQ(num_equal(drawn({{2, 3, 4}, {0, 1}}, 1, 2, 3, "other"), whole), 4);
}

TEST(GraphRandomTest, EveryPartOfTheKeyMatters) {
  const Tensors whole = drawn({{0, 1, 2, 3, 4}}, 1, 2, 3);
  EXPECT_EQ(num_equal(drawn({{0, 1, 2, 3, 4}}, 9, 2, 3), whole), 0);
  EXPECT_EQ(num_equal(drawn({{0, 1, 2, 3, 4}}, 1, 9, 3), whole), 0);
  EXPECT_EQ(num_equal(drawn({{0, 1, 2, 3, 4}}, 1, 2, 9), whole), 0);
  EXPECT_FALSE(at::equal(whole[0], whole[1]));  // another module
  EXPECT_FALSE(at::equal(whole[0], whole[2]));  // another position in the module
}

TEST(GraphRandomTest, OutsideOfAScopeTheDefaultGeneratorDraws) {
  const GraphBuilder graph = random_graph();
  const at::Tensor x = at::ones({64});
  at::manual_seed(5);
  const Tensors written = program_of(graph, {"x"}, {"a", "b", "c", "d"}).run({x}, {}, {});
  at::manual_seed(5);
  const Tensors expected{at::dropout(x, 0.5, true), at::dropout(x, 0.5, true),
                         at::dropout(x, 0.5, true), at::rand_like(x)};
  EXPECT_EQ(num_equal(written, expected), 4);
}

TEST(GraphRandomTest, TheStreamOfTheScopeStaysWhereItIs) {
  const GraphBuilder graph = random_graph();
  const GraphProgram program = program_of(graph, {"x"}, {"a"});
  const KeyedRandomScope scope(1, 2, "layer", 3);
  program.run({at::ones({64})}, {}, {});
  const at::Tensor after = at::rand({4});
  const KeyedRandomScope again(1, 2, "layer", 3);
  expect_same(after, at::rand({4}));
}

// ---- evaluation ----

TEST(GraphEvaluationTest, TrainingArgumentsAreTurned) {
  GraphBuilder graph;
  graph.tensor("x", {"2", "2", "8", "4"});
  const Value x{"x"};
  graph.node("aten.dropout.default", {{"input", x}, {"p", 0.5}, {"train", true}}, {"a"});
  graph.node("aten.scaled_dot_product_attention.default",
             {{"query", x}, {"key", x}, {"value", x}, {"attn_mask", None()}, {"dropout_p", 0.5}},
             {"b"});
  graph.node("aten.native_dropout.default", {{"input", x}, {"p", 0.5}, {"train", true}}, {"c", ""});
  graph.node("aten.rrelu.default",
             {{"self", x}, {"lower", 0.1}, {"upper", 0.3}, {"training", true}}, {"d"});
  graph.node("aten.alpha_dropout.default", {{"input", x}, {"p", 0.5}, {"train", true}}, {"e"});
  const GraphProgram program = program_of(graph, {"x"}, {"a", "b", "c", "d", "e"});
  const at::Tensor value = at::randn({2, 2, 8, 4});
  const Tensors plain{value, at::scaled_dot_product_attention(value, value, value), value,
                      at::rrelu(value, 0.1, 0.3, false), value};
  EXPECT_EQ(num_equal(program.run({value}, {}, {.training = false}), plain), 5);
  EXPECT_EQ(num_equal(program.run({value}, {}, {.training = true}), plain), 0);
}

GraphBuilder norm_graph(bool has_running) {
  GraphBuilder graph;
  const Value mean{"mean"}, variance{"variance"};
  graph.tensor("x", {"s0", "3"});
  graph.input(GraphInput::Kind::kBuffer, "mean", {"3"});
  graph.input(GraphInput::Kind::kBuffer, "variance", {"3"});
  graph.input(GraphInput::Kind::kBuffer, "num_batches_tracked", {}, "int64");
  graph.node("aten.add_.Tensor", {{"self", Value{"num_batches_tracked"}}, {"other", 1}},
             {"counted"});
  graph.node("aten.batch_norm.default",
             {{"input", Value{"x"}},
              {"weight", None()},
              {"bias", None()},
              {"running_mean", has_running ? GraphBuilder::Item(mean) : None()},
              {"running_var", has_running ? GraphBuilder::Item(variance) : None()},
              {"training", true},
              {"momentum", 0.1},
              {"eps", 1e-5},
              {"cudnn_enabled", true}},
             {"y"});
  return graph;
}

const Names kRunning{"mean", "variance", "num_batches_tracked"};

TEST(GraphEvaluationTest, ACountThatIsReadGoesOn) {
  GraphBuilder graph = norm_graph(true);
  graph.node("aten.mul.Tensor", {{"self", Value{"counted"}}, {"other", 2}}, {"twice"});
  const GraphProgram program = program_of(graph, {"x"}, {"twice"}, kRunning);
  const Tensors held{at::zeros({3}), at::ones({3}), at::zeros({}, at::kLong)};
  expect_same(program.run({at::ones({5, 3})}, held, {.training = false})[0],
              at::scalar_tensor(2, at::kLong));
}

TEST(GraphEvaluationTest, RunningStatisticsAreReadAndStay) {
  const at::Tensor x = at::randn({5, 3});
  for (const bool has_running : {true, false}) {
    const GraphBuilder graph = norm_graph(has_running);
    const GraphProgram program = program_of(graph, {"x"}, {"y"}, kRunning);
    const Tensors held{at::full({3}, 0.5), at::full({3}, 2.0), at::zeros({}, at::kLong)};
    const at::Tensor by_batch = at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, true);
    const at::Tensor by_running =
        at::batch_norm(x, {}, {}, held[0], held[1], false, 0.1, 1e-5, true);
    expect_same(program.run({x}, held, {.training = false})[0],
                has_running ? by_running : by_batch);
    expect_same(held[0], at::full({3}, 0.5));
    EXPECT_EQ(held[2].item<std::int64_t>(), 0);
    expect_same(program.run({x}, held, {.training = true})[0], by_batch);
    EXPECT_EQ(at::equal(held[0], at::full({3}, 0.5)), !has_running);
    EXPECT_EQ(held[2].item<std::int64_t>(), 1);
  }
}

// ---- as a layer ----

struct NormModule : torch::nn::Module {
  NormModule() {
    weight = register_parameter("weight", at::ones({3}));
    register_buffer("mean", at::zeros({3}));
    register_buffer("variance", at::ones({3}));
    register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
  }
  at::Tensor weight;
};

Tensors norm_layer_after(bool twice) {
  GraphBuilder graph = norm_graph(true);
  graph.tensor("weight", {"3"});
  graph.node("aten.mul.Tensor", {{"self", Value{"y"}}, {"other", Value{"weight"}}}, {"z"});
  GraphBuilder::put_inside(
      graph.node("aten.dropout.default", {{"input", Value{"z"}}, {"p", 0.5}, {"train", true}},
                 {"out"}),
      "drop");
  const auto program = std::make_shared<GraphProgram>(
      program_of(graph, {"x"}, {"out"}, {"mean", "variance", "num_batches_tracked", "weight"}));
  int num_runs = 0;
  LayerSpec layer{.name = "norm", .reads = {"x"}, .writes = {"out"}};
  layer.make = [] { return std::make_shared<NormModule>(); };
  layer.forward = [&](torch::nn::Module& module, const Tensors& in) {
    ++num_runs;
    Tensors held = module.buffers();
    held.push_back(static_cast<NormModule&>(module).weight);
    return program->run(in, held, {});
  };
  layer.recompute = twice;
  std::vector<LayerSpec> layers;
  layers.push_back(std::move(layer));
  Chunk chunk(std::move(layers), 0, {"x"}, {"out"});
  GradientSums sums;
  for (const ParameterInfo& parameter : chunk.parameters())
    sums.push_back(std::make_unique<ShardedSum>(parameter.tensor, parameter.name));
  const ChunkBackwardMaker make = graph_backward(chunk, sums, "the test");
  at::manual_seed(1);
  const at::Tensor x = at::randn({5, 3});
  for (const std::int64_t microbatch : {0, 1}) {
    const auto backward = make(chunk, sums);
    const Values out = backward->forward({.seed = 1, .microbatch = microbatch},
                                         {{"x", x.clone().requires_grad_(true)}}, {});
    backward->keep({out.get("out")});
    backward->full({at::ones({5, 3})});
  }
  EXPECT_EQ(num_runs, twice ? 4 : 2);
  Tensors found = chunk.module(0).buffers();
  found.push_back(sums[0]->add_in_place().first.clone());
  return found;
}

TEST(GraphLayerTest, ALayerThatRunsTwiceHasTheSameBitsAndCountsOnce) {
  const Tensors once = norm_layer_after(false), twice = norm_layer_after(true);
  EXPECT_EQ(once[2].item<std::int64_t>(), 2);
  EXPECT_FALSE(at::equal(once[0], at::zeros({3})));
  EXPECT_FALSE(at::equal(once[3], at::zeros({3})));
  EXPECT_EQ(num_equal(once, twice), 4);
}

TEST(GraphLayerTest, ProductsUnderAutocastReadTheCopiesOfWeights) {
  GraphBuilder graph;
  graph.tensor("x", {"2", "4"});
  graph.tensor("w", {"4", "4"});
  graph.node("aten.linear.default", {{"input", Value{"x"}}, {"weight", Value{"w"}}}, {"y"});
  const GraphProgram program = program_of(graph, {"x"}, {"y"}, {"w"});
  const at::Tensor x = at::randn({2, 4}), w = at::randn({4, 4}).requires_grad_(true);
  CastedWeights copies;
  copies.add(w);
  const AutocastScope autocast(at::kBFloat16);
  const KeyedRandomScope scope(0, 0, "layer", 0);
  const CastedWeightsScope casts(copies);
  const at::Tensor y = program.run({x}, {w}, {})[0];
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(copies.bytes(), 4 * 4 * 2);
}

TEST(GraphLayerTest, TheWrittenAttentionUnderAutocastIsThatOfTheOperator) {
  const at::Tensor q = at::randn({2, 2, 3, 4}), k = at::randn({2, 2, 3, 4}),
                   v = at::randn({2, 2, 3, 4}), mask = at::randn({1, 2, 3, 3}).requires_grad_();
  const Arguments arguments = {
      {"query", Value{"a"}}, {"key", Value{"b"}}, {"value", Value{"c"}}, {"attn_mask", Value{"d"}}};
  const AutocastScope autocast(at::kBFloat16);
  GraphBuilder graph;
  for (const char* name : {"a", "b", "c"}) graph.tensor(name, {"2", "2", "3", "4"});
  graph.tensor("d", {"1", "2", "3", "3"});
  graph.node("aten._scaled_dot_product_attention_math.default", arguments, {"y", ""});
  const at::Tensor written =
      program_of(graph, {"a", "b", "c", "d"}, {"y"}).run({q, k, v, mask}, {}, {}).front();
  const at::Tensor exported = at::scaled_dot_product_attention(q, k, v, mask);
  EXPECT_EQ(written.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(written, exported));
}

// ---- added operators and errors ----

TEST(GraphOperatorsTest, AnAddedOperatorIsCalledWithItsArgumentsAsWritten) {
  GraphBuilder graph;
  graph.tensor("x", {"s0"});
  graph.number("n", "s0");
  graph.node("sluice.scaled.default",
             {{"x", Value{"x"}},
              {"by", 3},
              {"list", Items{1, Value{"n"}}},
              {"word", "add"},
              {"none", None()},
              {"tensors", Items{Value{"x"}, Value{"x"}}}},
             {"y", "z"});
  const GraphOperator scaled{
      "sluice::scaled", [](const std::vector<c10::IValue>& in) {
        EXPECT_EQ(in[2].toIntVector(), (std::vector<std::int64_t>{1, 2}));
        EXPECT_EQ(in[3].toStringRef(), "add");
        EXPECT_TRUE(in[4].isNone());
        return Tensors{in[0].toTensor() * in[1].toInt(), at::cat(in[5].toTensorVector())};
      }};
  const Tensors written =
      program_of(graph, {"x"}, {"y", "z"}, {}, {scaled}).run({at::ones({2})}, {}, {});
  expect_same(written[0], at::full({2}, 3.0));
  expect_same(written[1], at::ones({4}));
}

TEST(GraphOperatorsTest, AnUnknownOperatorIsRefusedWhenItIsLoaded) {
  GraphBuilder graph;
  graph.tensor("x", {"2"});
  GraphNode& node = graph.node("foreign.thing.default", {{"x", Value{"x"}}}, {"y"});
  GraphBuilder::put_inside(node, "model.layers.3");
  node.source = "model.py:7";
  const Error error = error_of([&] { program_of(graph, {"x"}, {"y"}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(),
            "the exported graph calls 'foreign.thing.default', which is neither an allowed "
            "operator of LibTorch nor one that the program gives");
  EXPECT_EQ(error.where(), "node 'y' of module 'model.layers.3' (model.py:7)");
}

TEST(GraphOperatorsTest, ArgumentsThatDoNotFitAreRefusedWhenTheyAreLoaded) {
  const auto refusal = [](const std::string& target, const Arguments& arguments) {
    const Error error = error_of([&] { result_of(target, arguments, {numbers()}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.where(), "node 'y'");
    return error.fact();
  };
  EXPECT_EQ(refusal("aten.sum.dim_IntList", {{"self", kA}, {"dim", "rows"}}),
            "argument 'dim' of 'aten.sum.dim_IntList' is 'rows', but the operator takes int[]?");
  EXPECT_EQ(
      refusal("aten.gelu.default", {{"self", kA}, {"approximate", kA}}),
      "argument 'approximate' of 'aten.gelu.default' is a tensor, but the operator takes str");
  EXPECT_EQ(refusal("aten.transpose.int", {{"self", kA}, {"dim0", 0}}),
            "'aten.transpose.int' lacks the argument 'dim1' of the operator");
  EXPECT_EQ(refusal("aten.neg.default", {{"self", kA}, {"alpha", 2}}),
            "'aten.neg.default' has an argument 'alpha' that the operator does not have");
}

TEST(GraphOperatorsTest, ANodeThatFailsIsNamed) {
  const Error error = error_of([&] {
    result_of("aten.embedding.default", {{"weight", kA}, {"indices", kB}},
              {numbers(), at::tensor({7})});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), "node 'y'");
  EXPECT_NE(error.fact().find("'aten.embedding.default' of the exported graph fails: index out"),
            std::string::npos)
      << error.fact();
}

// Without these checks LibTorch's kernels would read out of bounds.
TEST(GraphOperatorsTest, ArgumentsThatLibTorchDoesNotCheckAreChecked) {
  const auto fails = [](const std::string& target, const Arguments& arguments, const Tensors& read,
                        const Names& results = {"y"}) {
    const Error error = error_of([&] { results_of(target, arguments, read, results); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << target;
    return error.fact().substr(error.fact().find("fails: ") + 7);
  };
  const Arguments attention = {{"query", kA}, {"key", kB}, {"value", Value{"c"}}};
  const at::Tensor heads = at::ones({1, 2, 8, 4});
  EXPECT_EQ(fails("aten.scaled_dot_product_attention.default", attention,
                  {heads, heads, at::ones({1, 2, 3, 4})}),
            "there are 8 keys, but 3 values");
  EXPECT_EQ(fails("aten._weight_norm.default", {{"v", kA}, {"g", kB}, {"dim", 0}},
                  {at::ones({4, 3}), at::ones({2, 1})}),
            "there are 2 lengths for 4 directions");
  const auto ctc = [&](std::int64_t label, std::int64_t length) {
    return fails("aten.ctc_loss.IntList",
                 {{"log_probs", kA},
                  {"targets", kB},
                  {"input_lengths", Items{6}},
                  {"target_lengths", Items{length}},
                  {"blank", 0}},
                 {at::zeros({6, 1, 5}), at::tensor({std::int64_t{1}, label}).reshape({1, 2})});
  };
  EXPECT_EQ(ctc(5, 2), "a label is 5, but there are 5 classes");
  EXPECT_EQ(ctc(-1, 2), "a label is -1, but there are 5 classes");
  EXPECT_NO_THROW(
      results_of("aten.ctc_loss.IntList",
                 {{"log_probs", kA},
                  {"targets", kB},
                  {"input_lengths", Items{6}},
                  {"target_lengths", Items{1}},
                  {"blank", 0}},
                 {at::zeros({6, 1, 5}), at::tensor({1, -100}, at::kLong).reshape({1, 2})}));
  const Arguments lstm = {{"input", kA},
                          {"hx", Items{kB, kB}},
                          {"params", Items{Value{"c"}, Value{"d"}, Value{"e"}, Value{"e"}}},
                          {"has_biases", true},
                          {"num_layers", 1},
                          {"dropout", 0.0},
                          {"train", true},
                          {"bidirectional", false},
                          {"batch_first", false}};
  const Tensors whole = {at::ones({5, 2, 4}), at::zeros({1, 2, 3}), at::ones({12, 4}),
                         at::ones({12, 3}), at::ones({12})};
  EXPECT_NO_THROW(results_of("aten.lstm.input", lstm, whole, {"y", "h", "c"}));
  Tensors wide = whole;
  wide[2] = at::ones({12, 9});
  EXPECT_EQ(fails("aten.lstm.input", lstm, wide, {"y", "h", "c"}),
            "weight 0 has the sizes [12, 9], not [12, 4]");
}

// Returns a strided view of x, whose strides at export were `exported`.
at::Tensor strided_view(const at::Tensor& x, const Items& size, const Items& stride,
                        const std::vector<std::int64_t>& exported) {
  GraphBuilder graph;
  Names sizes;
  for (const std::int64_t each : x.sizes()) sizes.push_back(std::to_string(each));
  graph.tensor("x", sizes);
  for (const std::int64_t each : exported)
    graph.module.values.back().strides.push_back(SizeExpression(each));
  graph.node("aten.as_strided.default", {{"self", Value{"x"}}, {"size", size}, {"stride", stride}},
             {"y"});
  return program_of(graph, {"x"}, {"y"}).run({x}, {}, {}).front();
}
at::Tensor strided_view(const at::Tensor& x, const Items& size, const Items& stride) {
  return strided_view(x, size, stride, x.strides().vec());
}

TEST(StridedViewTest, OfElementsOfItsTensorHasTorchsNumbersAndGradients) {
  for (const bool is_transposed : {false, true}) {
    const at::Tensor x = at::arange(8, at::kFloat).view({2, 4});
    at::Tensor own = x.clone(), expected = x.clone();
    own.requires_grad_(), expected.requires_grad_();
    const auto laid = [&](const at::Tensor& of) { return is_transposed ? of.t() : of; };
    const at::Tensor found = strided_view(laid(own), {2, 3, 2}, {4, 1, 1});
    const at::Tensor view = laid(expected).as_strided({2, 3, 2}, {4, 1, 1});
    expect_same(found, view);
    const at::Tensor gradient = at::arange(12, at::kFloat).view({2, 3, 2});
    torch::autograd::backward({found}, {gradient});
    torch::autograd::backward({view}, {gradient});
    expect_same(own.grad(), expected.grad());
    EXPECT_EQ(strided_view(x, {0, 100}, {1, 1}).numel(), 0);
  }
}

std::string strided_refusal(const at::Tensor& x, const Items& size, const Items& stride,
                            const std::vector<std::int64_t>& exported) {
  const Error error = error_of([&] { strided_view(x, size, stride, exported); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), "node 'y'");
  const std::string start = "'aten.as_strided.default' of the exported graph fails: ";
  EXPECT_TRUE(error.fact().starts_with(start)) << error.fact();
  return error.fact().substr(std::min(start.size(), error.fact().size()));
}

TEST(StridedViewTest, ThatReachesBeyondItsTensorIsRefusedWithItsNode) {
  const at::Tensor storage = at::arange(32, at::kFloat);
  // The storage has more elements before and after x.
  const at::Tensor x = storage.narrow(0, 8, 8).view({2, 4});
  const auto refusal = [&](const Items& size, const Items& stride) {
    return strided_refusal(x, size, stride, {4, 1});
  };
  expect_same(strided_view(x, {2}, {7}), at::tensor({8.0f, 15.0f}));
  EXPECT_EQ(refusal({2}, {8}),
            "a view of the sizes [2] with the strides [8] reaches beyond the 8 elements of its "
            "tensor");
  const std::int64_t large = std::int64_t{1} << 62;
  const std::string beyond = "reaches beyond the 8 elements of its tensor";
  for (const auto& [size, stride] :
       std::vector<std::pair<Items, Items>>{{{9}, {1}},
                                            {{2, 5}, {4, 1}},
                                            {{2}, {-1}},
                                            {{-1}, {1}},
                                            {{large, large}, {large, large}},
                                            {{5}, {large}},
                                            {{large, large}, {0, 0}},
                                            {{2, 0}, {-1, 1}}})
    EXPECT_NE(refusal(size, stride).find(beyond), std::string::npos);
  EXPECT_EQ(refusal({2, 2}, {1}), "there are 2 sizes and 1 strides");
  EXPECT_NE(strided_refusal(at::empty({0}), {1}, {1}, {1}).find("beyond the 0 elements"),
            std::string::npos);
}

TEST(StridedViewTest, OfATensorThatLiesOtherwiseThanAtExportIsRefused) {
  const at::Tensor x = at::arange(8, at::kFloat).view({2, 4});
  EXPECT_EQ(strided_refusal(x, {2}, {1}, {1, 2}),
            "the tensor has the strides [4, 1], but at export it had [1, 2]");
  EXPECT_EQ(strided_refusal(x.t(), {2}, {1}, {2, 1}),
            "the tensor has the strides [1, 4], but at export it had [2, 1]");
  const std::string gaps = "the elements of the tensor are not one piece of memory";
  EXPECT_EQ(strided_refusal(x.narrow(1, 0, 2), {2}, {1}, {4, 1}), gaps);
  EXPECT_EQ(strided_refusal(x.narrow(0, 0, 1).expand({2, 4}), {2}, {1}, {0, 1}), gaps);
  // The stride of a dimension of size 1 does not matter.
  expect_same(strided_view(x.narrow(0, 1, 1), {2}, {2}, {77, 1}), at::tensor({4.0f, 6.0f}));
}

TEST(StridedViewTest, OfSymbolicSizesIsCheckedAtEveryCall) {
  GraphBuilder graph;
  graph.tensor("x", {"s1", "s0"});
  graph.module.values.back().strides = {SizeExpression(1), SizeExpression::parse("s1")};
  graph.number("n", "s0*s0");
  graph.node("aten.as_strided.default",
             {{"self", Value{"x"}}, {"size", Items{Value{"n"}, 2}}, {"stride", Items{1, 1}}},
             {"y"});
  const GraphProgram program = program_of(graph, {"x"}, {"y"});
  // The storage is larger than the tensor, so LibTorch's own check passes.
  const auto tensor = [](std::int64_t rows) {
    return at::arange(64, at::kFloat).narrow(0, 0, rows * 4).view({rows, 4}).t();
  };
  for (const std::int64_t rows : {2, 3})
    EXPECT_EQ(program.run({tensor(rows)}, {}, {}).front().sizes(),
              (std::vector<std::int64_t>{rows * rows, 2}));
  for (const std::int64_t rows : {4, 5}) {
    const Error error = error_of([&] { program.run({tensor(rows)}, {}, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.where(), "node 'y'");
    EXPECT_NE(error.fact().find("reaches beyond"), std::string::npos) << error.fact();
  }
  const Error error = error_of([&] { program.run({tensor(3).contiguous()}, {}, {}); });
  EXPECT_NE(error.fact().find("the strides [3, 1], but at export it had [1, 4]"), std::string::npos)
      << error.fact();
}

TEST(GraphOperatorsTest, AssertionsOnDtypesAreLeftOut) {
  GraphBuilder graph;
  graph.tensor("x", {"2"});
  graph.node("aten._assert_tensor_metadata.default",
             {{"a", Value{"x"}}, {"dtype", Dtype{"float64"}}}, {});
  graph.node("aten.neg.default", {{"self", Value{"x"}}}, {"y"});
  const GraphProgram program = program_of(graph, {"x"}, {"y"});
  EXPECT_EQ(program.num_calls(), 1U);
  EXPECT_NO_THROW(program.run({at::ones({2})}, {}, {}));
}

}  // namespace
}  // namespace sluice::test::graph_program_test
