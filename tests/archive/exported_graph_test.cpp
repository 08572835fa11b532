// Reads whole archives of torch 2.13, made by tests/archive/data/make_archives.py.
#include "archive/exported_graph.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/text.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/reference_cases.h"
#include "support/temp_directory.h"

namespace sluice::detail {
namespace {

std::string path_of(const std::string& name) {
  return std::string(SLUICE_TEST_DATA) + "/archive/data/" + name;
}

std::string shape_of(const GraphValue& value) {
  std::string text = value.dtype.empty() ? "number" : value.dtype;
  if (value.number) text += " " + value.number->text();
  text += " [";
  for (const SizeExpression& size : value.sizes)
    text += (text.back() == '[' ? "" : ", ") + size.text();
  return text + "]";
}

std::string described(const GraphModule& module) {
  static const std::vector<std::string> kKinds = {"batch", "parameter", "buffer", "constant",
                                                  "number"};
  std::string text;
  for (const GraphInput& input : module.inputs) {
    text += "input " + input.name + ": " + kKinds[static_cast<std::size_t>(input.kind)];
    if (!input.persistent) text += ", not persistent";
    if (input.value >= 0)
      text += ", " + shape_of(module.values[static_cast<std::size_t>(input.value)]);
    text += "\n";
  }
  for (const GraphNode& node : module.nodes) {
    text += to_text(node, module);
    for (const GraphNode::Result& result : node.results) {
      for (const int value : result.values)
        text += ", " + shape_of(module.values[static_cast<std::size_t>(value)]);
    }
    if (!node.modules.empty() && node.modules.back().key != node.module_path())
      text += ", call " + node.modules.back().key;
    if (!node.modules.empty()) text += ", " + node.modules.back().class_name;
    if (node.grad_mode == GraphNode::GradMode::kOff) text += ", no gradients";
    if (node.higher_order >= 0) text += ", in operator " + std::to_string(node.higher_order);
    text += ", at " + node.source + "\n";
  }
  for (const GraphOutput& output : module.outputs) {
    text += "output " + output.name + ": " +
            module.values[static_cast<std::size_t>(output.value.value)].name + "\n";
  }
  for (const SizeRange& range : module.ranges) {
    text += "range " + range.symbol + ": from " + std::to_string(range.least) +
            (range.most == INT64_MAX ? "" : " to " + std::to_string(range.most)) + "\n";
  }
  for (const SizeRule& rule : module.rules) text += "rule " + rule.text() + "\n";
  return text;
}

std::string described(const ExportedGraph& graph) {
  std::string text = "torch " + graph.torch_version + "\n" + described(graph.training);
  if (graph.evaluation) text += "evaluation\n" + described(*graph.evaluation);
  for (const GraphTensor& tensor : graph.tensors) {
    text += "tensor " + tensor.name + ": " + tensor.dtype + " " + shape_text(tensor.sizes) +
            " strides " + shape_text(tensor.strides) + " at " +
            std::to_string(tensor.storage_offset) + " of '" + tensor.record + "', " +
            std::to_string(tensor.bytes) + " bytes" + (tensor.trainable ? "" : ", not trained") +
            (tensor.is_parameter ? "" : ", no parameter") + "\n";
  }
  for (const auto& [name, first] : graph.facts.ties) text += "tie " + name + " to " + first + "\n";
  for (const GraphFacts::Size& size : graph.facts.sizes)
    text += "size " + size.name + ": " + size.symbol + ", " + std::to_string(size.example) + "\n";
  return text;
}

TEST(ExportedGraphTest, ReadsAnArchiveWithWeights) {
  const ExportedGraph graph = read_exported_graph(path_of("plain.pt2"));
  testing::expect_golden("archive/plain.txt", described(graph));
  EXPECT_FALSE(graph.facts.present);
  EXPECT_FALSE(graph.evaluation);
  // Tied weights share one record of numbers.
  const GraphTensor *head = graph.tensor("head.weight"), *table = graph.tensor("table.weight");
  ASSERT_TRUE(head && table);
  EXPECT_EQ(head->record, table->record);
  EXPECT_EQ(graph.tensor("nothing"), nullptr);
  const GraphTensor& scale = *graph.tensor("blocks.1.scale");
  std::vector<float> numbers(4);
  ASSERT_EQ(scale.bytes, 16);
  File::open(graph.path).read(numbers.data(), 16, static_cast<std::uint64_t>(scale.offset));
  EXPECT_EQ(numbers, (std::vector<float>{1, 4.0F / 3, 5.0F / 3, 2}));
}

TEST(ExportedGraphTest, ReadsAnArchiveWithoutWeightsAndWhatTheExporterAdds) {
  const ExportedGraph graph = read_exported_graph(path_of("skeleton.pt2"));
  testing::expect_golden("archive/skeleton.txt", described(graph));
  EXPECT_TRUE(graph.facts.present);
  EXPECT_EQ(graph.facts.class_name, "make_archives.Attention");
  EXPECT_EQ(graph.facts.config, "{\n  \"model_type\": \"attention\",\n  \"alpha\": 1\n}\n");
  EXPECT_EQ(graph.facts.loss_output, "logits");
  EXPECT_EQ(graph.facts.loss_count, "");
  EXPECT_EQ(graph.facts.notes, std::vector<std::string>{"A note."});
  EXPECT_EQ(graph.facts.checked, "no");
  EXPECT_FALSE(graph.facts.has_weights);
  ASSERT_TRUE(graph.evaluation);
  const auto dropout_of = [](const GraphModule& module) -> const GraphArgument* {
    for (const GraphNode& node : module.nodes) {
      if (node.target == "aten.scaled_dot_product_attention.default")
        return node.argument("dropout_p");
    }
    return nullptr;
  };
  ASSERT_TRUE(dropout_of(graph.training));
  EXPECT_EQ(dropout_of(graph.training)->real, 0.1);
  EXPECT_EQ(dropout_of(*graph.evaluation), nullptr);
}

TEST(ExportedGraphTest, RefusesEveryBeginningOfAnArchive) {
  const std::string whole = testing::read_test_file("archive/data/plain.pt2");
  const test::TempDirectory folder;
  const std::string path = folder / "cut.pt2";
  for (std::size_t length = 0; length < whole.size(); length += 997) {
    test::write_file(path, whole.substr(0, length));
    EXPECT_EQ(test::error_of([&] { read_exported_graph(path); }).kind(), ErrorKind::kInput)
        << length;
  }
  EXPECT_EQ(test::error_of([&] { read_exported_graph(folder.str()); }).kind(), ErrorKind::kInput);
}

}  // namespace
}  // namespace sluice::detail
