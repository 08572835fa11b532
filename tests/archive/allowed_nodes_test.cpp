#include "archive/allowed_nodes.h"

#include <gtest/gtest.h>

#include <string>

#include "archive/small_graph.h"
#include "archive/written_graph.h"
#include "family/aten_table.h"
#include "support/expect_error.h"

namespace sluice::detail {
namespace {

using test::error_of;
using test::in_block;
using test::SmallDecoder;
using test::Value;

SmallDecoder decoder_with(const std::string& target, test::GraphBuilder::Arguments arguments = {}) {
  SmallDecoder graph;
  if (arguments.empty()) arguments = {{"self", Value{"h0"}}};
  test::GraphNode& node = graph.add(in_block(0), target, arguments, "made");
  node.source = "model.py:7";
  graph.move_last(6);
  return graph;
}

TEST(AllowedNodesTest, AnOperatorWithoutARowIsRefusedByNameWithItsNode) {
  const std::vector<std::string> refused = {"aten.from_file.default",
                                            "aten.set_.source_Tensor",
                                            "aten.resize_.default",
                                            "aten.resize_as_.default",
                                            "aten.as_strided_.default",
                                            "aten.as_strided_copy.default",
                                            "aten.as_strided_scatter.default",
                                            "aten._unsafe_index.Tensor",
                                            "aten._unsafe_masked_index.default",
                                            "aten._sparse_csr_tensor_unsafe.default",
                                            "aten._reshape_alias.default",
                                            "aten._index_put_impl_.default",
                                            "aten.segment_reduce.default",
                                            "aten.record_stream.default",
                                            "aten.pin_memory.default",
                                            "aten._print.default",
                                            "aten._cufft_set_plan_cache_max_size.default",
                                            "aten.native_batch_norm.default",
                                            "aten._embedding_bag.default",
                                            "aten.embedding_dense_backward.default",
                                            "aten.mkldnn_rnn_layer.default",
                                            "aten.quantized_lstm.input",
                                            "aten._nested_view_from_buffer.default",
                                            "aten.relu.no_such_overload",
                                            "aten.relu",
                                            "aten.no_such_operator.default",
                                            "inductor._reinterpret_tensor.default",
                                            "profiler._record_function_enter.default",
                                            "prims.view_of.default",
                                            "c10d.allreduce_.default",
                                            "quantized.linear.default",
                                            "builtins.print",
                                            "_operator.getitem",
                                            "os.system",
                                            ""};
  for (const std::string& target : refused) {
    const Error error = error_of([&] { decoder_with(target).model(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << target;
    EXPECT_EQ(error.fact(), "'" + target + "' is not an operator that an exported graph may run");
    EXPECT_EQ(error.where(), "model.pt2, node 'made' of module 'blocks.0' (model.py:7)");
    EXPECT_NO_THROW(decoder_with(target).model({.allows_refused = true})) << target;
  }
}

TEST(AllowedNodesTest, TheGraphOfEvaluationIsRefusedToo) {
  SmallDecoder graph;
  graph.graph.evaluation = decoder_with("aten.from_file.default").module;
  EXPECT_EQ(error_of([&] { graph.model(); }).kind(), ErrorKind::kInput);
}

TEST(AllowedNodesTest, LayoutsAndPinnedMemoryAreRefused) {
  const auto fact = [](const std::string& argument, const test::GraphBuilder::Item& item) {
    return error_of([&] {
             decoder_with("aten.zeros_like.default", {{"self", Value{"h0"}}, {argument, item}})
                 .model();
           })
        .fact();
  };
  EXPECT_EQ(fact("layout", test::LayoutName{"sparse_coo"}),
            "'aten.zeros_like.default' makes a tensor of the layout 'sparse_coo', not strided");
  EXPECT_EQ(fact("pin_memory", true), "'aten.zeros_like.default' asks for pinned memory");
  EXPECT_NO_THROW(decoder_with("aten.zeros_like.default", {{"self", Value{"h0"}},
                                                           {"layout", test::LayoutName{"strided"}},
                                                           {"pin_memory", false}})
                      .model());
}

TEST(AllowedNodesTest, AStridedViewNeedsTheStridesOfItsTensorAndTakesNoOffset) {
  const auto with_strides = [](std::size_t count, const test::GraphBuilder::Item& offset) {
    SmallDecoder graph =
        decoder_with("aten.as_strided.default", {{"storage_offset", offset},
                                                 {"size", test::GraphBuilder::Items{2}},
                                                 {"self", Value{"h0"}},
                                                 {"stride", test::GraphBuilder::Items{1}}});
    graph.module.values[static_cast<std::size_t>(graph.find("h0"))].strides.resize(count);
    return graph;
  };
  EXPECT_NO_THROW(with_strides(3, test::None()).model());
  for (const std::size_t count : {0, 2, 4}) {
    const Error error = error_of([&] { with_strides(count, test::None()).model(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.fact(),
              "'aten.as_strided.default' reads a tensor whose strides the archive does not say");
    EXPECT_EQ(error.where(), "model.pt2, node 'made' of module 'blocks.0' (model.py:7)");
  }
  EXPECT_EQ(error_of([&] { with_strides(3, 0).model(); }).fact(),
            "'aten.as_strided.default' is given a storage offset");
}

TEST(AllowedNodesTest, StridesOfTheArchiveAreReadWhereTheyCanBe) {
  const auto strides_of = [](const test::GraphJson& strides) {
    test::SmallArchive archive;
    test::graph_of(archive.program)["tensor_values"]["linear"]["strides"] = strides;
    const ExportedGraph graph = archive.read();
    std::vector<std::string> texts;
    for (const GraphValue& value : graph.training.values) {
      if (value.name != "linear") continue;
      for (const SizeExpression& stride : value.strides) texts.push_back(stride.text());
    }
    return texts;
  };
  const auto symbolic = [](const std::string& text) {
    return test::GraphJson{{"as_expr", {{"expr_str", text}}}};
  };
  const test::GraphJson one = {{"as_int", 1}};
  EXPECT_EQ(strides_of({symbolic("16*s0"), one}), (std::vector<std::string>{"16*s0", "1"}));
  EXPECT_EQ(strides_of({symbolic("unknown(s0)"), one}), std::vector<std::string>());
  EXPECT_EQ(strides_of("none"), std::vector<std::string>());
}

TEST(AllowedNodesTest, OperatorsOfTheProgramPass) {
  EXPECT_NO_THROW(decoder_with("sluice.my_op.default").model());
  EXPECT_NO_THROW(decoder_with("mine.op.default").model({.operators = {"mine::op"}}));
  EXPECT_NO_THROW(decoder_with("mine.op.out").model({.operators = {"mine::op.out"}}));
  for (const char* target : {"mine.other.default", "mine.op.out", "mine.op", "mine"})
    EXPECT_EQ(error_of([&] { decoder_with(target).model({.operators = {"mine::op"}}); }).kind(),
              ErrorKind::kInput)
        << target;
}

TEST(AtenTableTest, RowsAreInOrderAndFoundByTheirTargets) {
  for (std::size_t i = 0; i < kNumAtenRows; ++i) {
    if (i > 0) {
      EXPECT_LT(kAtenRows[i - 1].name, kAtenRows[i].name);
    }
    EXPECT_EQ(find_aten_row("aten." + std::string(kAtenRows[i].name)), &kAtenRows[i]);
  }
  const AtenRow* shift = find_aten_row("aten.__irshift__.Scalar");
  ASSERT_NE(shift, nullptr);
  EXPECT_EQ(shift->written, "self");
  EXPECT_EQ(shift->shared, "self");
  EXPECT_EQ(find_aten_row("add.Tensor"), nullptr);
}

}  // namespace
}  // namespace sluice::detail
