#include <gtest/gtest.h>

#include <functional>

#include "archive/small_graph.h"
#include "support/expect_error.h"

namespace sluice::detail {
namespace {

using test::argument_json;
using test::error_of;
using test::graph_of;
using test::GraphJson;
using test::named_tensor;
using test::node_json;
using test::SmallArchive;

Error refused(const SmallArchive& archive) {
  const Error error = error_of([&] { archive.read(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
  EXPECT_TRUE(error.where().starts_with("a.pt2")) << error.what();
  EXPECT_FALSE(error.remedy().empty()) << error.what();
  return error;
}

Error refused_program(const std::function<void(GraphJson& program)>& change) {
  SmallArchive archive;
  change(archive.program);
  return refused(archive);
}

Error refused_graph(const std::function<void(GraphJson& graph)>& change) {
  return refused_program([&](GraphJson& program) { change(graph_of(program)); });
}

Error refused_weights(const std::function<void(GraphJson& tensor)>& change) {
  SmallArchive archive;
  change(archive.weights["config"]["part.weight"]);
  return refused(archive);
}

TEST(GraphFaultsTest, NothingIsWrongWithTheArchiveThatTheOthersAreMadeOf) {
  const ExportedGraph graph = SmallArchive().read();
  ASSERT_EQ(graph.training.nodes.size(), 2u);
  EXPECT_EQ(to_text(graph.training.nodes[0], graph.training),
            "aten.linear(x, p_part_weight) -> linear of part");
  EXPECT_EQ(graph.training.outputs[0].name, "output");
  EXPECT_EQ(graph.tensor("part.weight")->bytes, 24);
  EXPECT_FALSE(graph.facts.present);
  EXPECT_TRUE(is_graph_path("a.pt2"));
  EXPECT_FALSE(is_graph_path("a.pt"));
}

TEST(GraphFaultsTest, RefusesAValueThatIsReadBeforeItIsWritten) {
  const Error error =
      refused_graph([](GraphJson& graph) { std::swap(graph["nodes"][0], graph["nodes"][1]); });
  EXPECT_EQ(error.what(),
            std::string("the value 'linear' is read before it is written, or never written; a.pt2, "
                        "entry 'm/models/model.json', node 1 'aten.relu.default'; export the model "
                        "again"));
  refused_graph([](GraphJson& graph) {
    graph["nodes"][0]["inputs"][0] = argument_json("input", named_tensor("relu"));
  });
  refused_graph([](GraphJson& graph) {
    graph["nodes"][0]["inputs"][0] = argument_json("input", named_tensor("linear"));
  });
  refused_graph([](GraphJson& graph) { graph["outputs"][0] = named_tensor("nothing"); });
}

TEST(GraphFaultsTest, RefusesAValueThatIsWrittenTwice) {
  EXPECT_EQ(refused_graph([](GraphJson& graph) {
              graph["nodes"][1]["outputs"][0] = named_tensor("linear");
            }).fact(),
            "the value 'linear' is written twice");
  EXPECT_EQ(refused_graph([](GraphJson& graph) {
              graph["nodes"][1]["outputs"][0] = named_tensor("x");
            }).fact(),
            "the value 'x' is written twice");
  refused_graph(
      [](GraphJson& graph) { graph["nodes"][1]["outputs"].push_back(named_tensor("relu")); });
  refused_program([](GraphJson& program) {
    graph_of(program)["inputs"].push_back(named_tensor("x"));
    program["graph_module"]["signature"]["input_specs"].push_back(
        {{"user_input", {{"arg", named_tensor("x")}}}});
  });
}

TEST(GraphFaultsTest, RefusesUnknownVersions) {
  for (const std::int64_t major : {0, 7, 9}) {
    const Error error =
        refused_program([&](GraphJson& program) { program["schema_version"]["major"] = major; });
    EXPECT_EQ(error.fact(), "the archive has version " + std::to_string(major) +
                                " of torch.export's schema, not 8");
    EXPECT_TRUE(error.remedy().starts_with("export the model again with torch "));
  }
  EXPECT_EQ(refused({.format = "pt3"}).fact(), "the archive has the format 'pt3', not 'pt2'");
  EXPECT_EQ(refused({.version = "1"}).fact(), "the archive has the version '1', not '0'");
  EXPECT_EQ(refused({.order = "big"}).fact(), "the archive has the byte order 'big', not 'little'");
  SmallArchive known;
  // a newer minor version is accepted until an unknown feature appears
  known.program["schema_version"]["minor"] = 99;
  EXPECT_EQ(known.read().training.nodes.size(), 2u);
}

TEST(GraphFaultsTest, RefusesOtherFilesByTheirNames) {
  const auto fact = [](const std::vector<test::ZipPart>& parts) {
    const std::string bytes = test::zip_bytes(parts);
    return error_of([&] { read_exported_graph(test::zip_of(bytes)); }).fact();
  };
  EXPECT_EQ(fact({}),
            "the file is not an archive of torch.export.save: it has no entry archive_format");
  EXPECT_EQ(fact({{.name = "m/data.pkl", .content = "x"}}),
            "the file is a pickle of torch.save, not an archive of torch.export.save");
  EXPECT_EQ(fact({{.name = "serialized_exported_program.json", .content = "{}"}}),
            "the file is an archive of an older torch");
  EXPECT_EQ(fact({{.name = "m/archive_format", .content = "pt2"}}),
            "the entry 'm/archive_version' is missing");
  SmallArchive two;
  two.more = {{.name = "m/models/other.json", .content = "{}"}};
  EXPECT_EQ(refused(two).fact(), "the archive has 2 models, not one");
}

TEST(GraphFaultsTest, RefusesDtypesLayoutsAndKindsThatAreNotKnown) {
  EXPECT_EQ(refused_graph([](GraphJson& graph) {
              graph["tensor_values"]["linear"]["dtype"] = 99;
            }).fact(),
            "the tensor 'linear' has the unknown dtype 99");
  EXPECT_EQ(refused_graph([](GraphJson& graph) {
              graph["tensor_values"]["linear"]["layout"] = 2;
            }).fact(),
            "the tensor 'linear' has the layout 'sparse_csr', not strided");
  const auto with_argument = [](const GraphJson& argument) {
    return refused_graph([&](GraphJson& graph) {
      graph["nodes"][1]["inputs"].push_back(argument_json("more", argument));
    });
  };
  EXPECT_EQ(with_argument({{"as_custom_obj", {{"name", "x"}, {"class_fqn", "y"}}}}).fact(),
            "an argument of the kind 'as_custom_obj' is not supported");
  EXPECT_EQ(with_argument({{"as_operator", "x"}}).where(),
            "a.pt2, entry 'm/models/model.json', node 2 'aten.relu.default'");
  for (const GraphJson& argument :
       std::vector<GraphJson>{{{"as_scalar_type", 0}},
                              {{"as_scalar_type", -1}},
                              {{"as_layout", 8}},
                              {{"as_memory_format", 5}},
                              {{"as_int", 1.5}},
                              {{"as_int", UINT64_MAX}},
                              {{"as_int", "1"}},
                              {{"as_float", "infinite"}},
                              {{"as_bool", 1}},
                              {{"as_ints", 1}},
                              {{"as_tensor", "x"}},
                              {{"as_tensors", {"x"}}},
                              {{"as_sym_int", {{"as_name", "s"}}}},
                              {{"as_sym_int", 3}},
                              {{"as_device", "cpu"}},
                              {{"as_optional_tensors", {{{"as_x", 1}}}}},
                              {{"as_int", 1}, {"as_float", 2}},
                              GraphJson::object(),
                              GraphJson::array(),
                              3,
                              nullptr})
    with_argument(argument);
  for (const GraphJson& result : std::vector<GraphJson>{
           {{"as_int", 1}}, {{"as_tensor", "x"}}, {{"as_sym_int", {{"as_int", 1}}}}, 3}) {
    refused_graph([&](GraphJson& graph) { graph["nodes"][1]["outputs"].push_back(result); });
  }
}

TEST(GraphFaultsTest, RefusesSizesThatAreNone) {
  const auto with_size = [](const GraphJson& size) {
    return refused_graph(
        [&](GraphJson& graph) { graph["tensor_values"]["linear"]["sizes"][0] = size; });
  };
  EXPECT_EQ(with_size({{"as_int", -1}}).fact(), "the tensor 'linear' has a size of -1");
  EXPECT_EQ(with_size({{"as_expr", {{"expr_str", "eval(s0)"}}}}).what(),
            std::string("the function 'eval' of sizes is not supported; a.pt2, entry "
                        "'m/models/model.json', node 1 'aten.linear.default'; use other sizes, or "
                        "export the model again"));
  with_size({{"as_expr", {{"expr_str", std::string(100000, '(')}}}});
  with_size({{"as_expr", {{"expr_str", "Integer(99999999999999999999)"}}}});
  with_size({{"as_int", UINT64_MAX}});
  with_size({{"as_float", 1.5}});
  with_size(3);
  refused_graph([](GraphJson& graph) {
    graph["tensor_values"]["linear"]["sizes"] = GraphJson(65, {{"as_int", 1}});
  });
  EXPECT_EQ(refused_program([](GraphJson& program) {
              program["guards_code"] = GraphJson::array({"L['x'].size()[0] <"});
            }).where(),
            "a.pt2, entry 'm/models/model.json', guards_code, 'L['x'].size()[0] <'");
  EXPECT_EQ(refused_program([](GraphJson& program) {
              program["range_constraints"]["s0"] = {{"min_val", 3}, {"max_val", 2}};
            }).fact(),
            "the size 's0' is at least 3 and at most 2");
}

TEST(GraphFaultsTest, RefusesASignatureThatIsNotTheGraphs) {
  const auto with_spec = [](const GraphJson& spec) {
    return refused_program(
        [&](GraphJson& program) { program["graph_module"]["signature"]["input_specs"][1] = spec; });
  };
  EXPECT_EQ(with_spec({{"user_input", {{"arg", named_tensor("y")}}}}).fact(),
            "input 1 has another name in the graph than in its signature");
  EXPECT_EQ(with_spec({{"token", {{"arg", {{"name", "x"}}}}}}).fact(),
            "an input of the kind 'token' is not supported");
  with_spec({{"user_input", {{"arg", {{"as_none", true}}}}}});
  with_spec({{"parameter", {{"arg", {{"name", "x"}}}, {"parameter_name", "part.weight"}}}});
  EXPECT_EQ(refused_program([](GraphJson& program) {
              program["graph_module"]["signature"]["output_specs"][0] = {
                  {"user_input_mutation", {{"arg", {{"name", "relu"}}}, {"user_input_name", "x"}}}};
            }).fact(),
            "an output of the kind 'user_input_mutation' is not supported");
  EXPECT_EQ(refused_program([](GraphJson& program) {
              program["graph_module"]["signature"]["output_specs"].clear();
            }).fact(),
            "the graph has 1 outputs, but its signature has 0");
}

TEST(GraphFaultsTest, RefusesEveryFieldThatIsMissingOrOfAnotherType) {
  const GraphJson whole = test::small_program();
  const GraphJson flat = whole.flatten();
  std::size_t num_read = 0;
  for (const auto& [path, value] : flat.items()) {
    for (const GraphJson& other : std::vector<GraphJson>{-1, "", nullptr, GraphJson::array(),
                                                         GraphJson::object(), true, 1e300}) {
      SmallArchive archive;
      archive.program[GraphJson::json_pointer(path)] = other;
      try {
        archive.read();
        ++num_read;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput) << path << " " << other;
        EXPECT_TRUE(error.where().starts_with("a.pt2")) << path << " " << error.what();
      }
    }
  }
  EXPECT_GT(num_read, 0u);               // for example, a value does not need requires_grad
  EXPECT_LT(num_read, flat.size() * 5);  // seven changes are tried for each field
  for (const char* key : {"graph_module", "schema_version", "range_constraints", "torch_version"}) {
    EXPECT_EQ(refused_program([&](GraphJson& program) { program.erase(key); }).fact(),
              "'" + std::string(key) + "' is missing");
  }
  for (const char* key : {"inputs", "outputs", "nodes", "tensor_values"})
    refused_graph([&](GraphJson& graph) { graph.erase(key); });
}

TEST(GraphFaultsTest, RejectsInvalidOrTooDeepJson) {
  for (const std::string& text : {std::string("{"), std::string("[]"), std::string("\xff"),
                                  std::string(1000000, '['), std::string(R"({"a": 1, "a": 2})")}) {
    const std::string bytes = test::zip_bytes({{.name = "m/archive_format", .content = "pt2"},
                                               {.name = "m/archive_version", .content = "0"},
                                               {.name = "m/byteorder", .content = "little"},
                                               {.name = "m/models/model.json", .content = text}});
    const Error error = error_of([&] { read_exported_graph(test::zip_of(bytes)); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_TRUE(error.where().starts_with("a.pt2, entry 'm/models/model.json'")) << error.what();
  }
}

// ---- higher-order operators ----

GraphJson set_grad(const GraphJson& graph, const std::vector<GraphJson>& operands,
                   const std::vector<GraphJson>& outputs) {
  std::vector<GraphJson> inputs = {
      argument_json("", {{"as_bool", false}}),
      argument_json("", {{"as_graph", {{"name", "inner"}, {"graph", graph}}}})};
  for (const GraphJson& operand : operands) inputs.push_back(argument_json("", operand));
  return node_json("torch.ops.higher_order.wrap_with_set_grad_enabled", inputs, outputs);
}

GraphJson relu_inside(GraphJson& graph) {
  GraphJson inner = graph;
  inner["nodes"] = std::vector<GraphJson>{graph["nodes"][1]};
  inner["inputs"] = std::vector<GraphJson>{named_tensor("linear")};
  return inner;
}

TEST(GraphFaultsTest, PutsTheNodesOfAHigherOrderOperatorInItsPlace) {
  SmallArchive archive;
  GraphJson& graph = graph_of(archive.program);
  graph["nodes"][1] =
      set_grad(relu_inside(graph), {named_tensor("linear")}, {named_tensor("relu")});
  const GraphModule read = archive.read().training;
  ASSERT_EQ(read.nodes.size(), 2u);
  EXPECT_EQ(read.nodes[1].grad_mode, GraphNode::GradMode::kOff);
  EXPECT_EQ(read.nodes[1].higher_order, 0);
  EXPECT_EQ(read.nodes[0].higher_order, -1);
  EXPECT_EQ(to_text(read.nodes[1], read), "aten.relu(linear) -> inner.relu of part");
  EXPECT_EQ(read.outputs[0].value.value, read.nodes[1].results[0].values[0]);
}

TEST(GraphFaultsTest, RefusesHigherOrderOperatorsThatAreNotOfOneGraph) {
  const auto with = [](const std::function<GraphJson(GraphJson&)>& make) {
    return refused_graph([&](GraphJson& graph) { graph["nodes"][1] = make(graph); });
  };
  const GraphJson linear = named_tensor("linear"), relu = named_tensor("relu");
  EXPECT_TRUE(with([&](GraphJson& graph) {
                GraphJson node = set_grad(relu_inside(graph), {linear}, {relu});
                node["target"] = "torch.ops.higher_order.cond";
                return node;
              })
                  .fact()
                  .starts_with("this higher-order operator is not supported, only "));
  EXPECT_EQ(with([&](GraphJson& graph) {
              return set_grad(relu_inside(graph), {linear, linear}, {relu});
            }).fact(),
            "the higher-order operator has 2 operands, but its graph has 1 inputs");
  EXPECT_EQ(with([&](GraphJson& graph) {
              return set_grad(relu_inside(graph), {linear}, {relu, relu});
            }).fact(),
            "the higher-order operator has 2 results, but its graph has 1");
  EXPECT_EQ(with([&](GraphJson& graph) {
              GraphJson node = set_grad(relu_inside(graph), {linear}, {relu});
              node["inputs"].erase(1);
              return node;
            }).fact(),
            "the higher-order operator has no graph");
  // A nested graph cannot read names of the outer graph.
  EXPECT_EQ(with([&](GraphJson& graph) {
              GraphJson inner = relu_inside(graph);
              inner["nodes"][0]["inputs"][0] = argument_json("self", named_tensor("x"));
              return set_grad(inner, {linear}, {relu});
            }).fact(),
            "the value 'x' is read before it is written, or never written");
  // Graphs nested this deeply exceed the depth limit of JSON.
  with([&](GraphJson& graph) {
    GraphJson inner = relu_inside(graph);
    for (int i = 0; i < 12; ++i) {
      GraphJson outer = inner;
      outer["nodes"][0] = set_grad(inner, {linear}, {relu});
      inner = outer;
    }
    return inner["nodes"][0];
  });
}

// ---- weights ----

TEST(GraphFaultsTest, RefusesTensorsWhoseBytesAreNotThere) {
  SmallArchive none;
  none.weights["config"].erase("part.weight");
  EXPECT_EQ(refused(none).fact(), "the tables of the archive do not have the tensor 'part.weight'");
  EXPECT_EQ(refused_weights([](GraphJson& tensor) { tensor["path_name"] = "weight_1"; }).what(),
            std::string("the record 'm/data/weights/weight_1' is missing; a.pt2, entry "
                        "'m/data/weights/model_weights_config.json', tensor 'part.weight'; export "
                        "the model again"));
  refused_weights([](GraphJson& tensor) { tensor["path_name"] = "../../models/model.json"; });
  SmallArchive twice;
  twice.more = {
      {.name = "m/data/constants/model_constants_config.json", .content = twice.weights.dump()},
      {.name = "m/data/constants/weight_0", .content = std::string(24, 'x')}};
  EXPECT_EQ(refused(twice).fact(), "another table has this name too");
}

TEST(GraphFaultsTest, RefusesElementsOutsideTheirRecord) {
  EXPECT_EQ(refused({.record = std::string(23, 'w')}).fact(),
            "its elements need 24 bytes of the record 'm/data/weights/weight_0', which has 23");
  const auto with = [](const char* field, const GraphJson& value) {
    return refused_weights([&](GraphJson& tensor) { tensor["tensor_meta"][field] = value; }).fact();
  };
  EXPECT_EQ(with("storage_offset", {{"as_int", 1}}),
            "its elements need 28 bytes of the record 'm/data/weights/weight_0', which has 24");
  EXPECT_EQ(with("storage_offset", {{"as_int", -1}}), "it starts before its record");
  with("storage_offset", {{"as_int", INT64_MAX}});
  with("strides", {{{"as_int", 4}}, {{"as_int", 1}}});
  with("strides", {{{"as_int", -3}}, {{"as_int", 1}}});
  with("strides", {{{"as_int", INT64_MAX}}, {{"as_int", 1}}});
  EXPECT_EQ(with("strides", GraphJson::parse(R"([{"as_int": 1}])")),
            "it has 2 sizes and 1 strides");
  with("sizes", {{{"as_int", 1LL << 62}}, {{"as_int", 1LL << 62}}});
  with("sizes", {{{"as_int", -2}}, {{"as_int", 3}}});
  with("sizes", {{{"as_expr", {{"expr_str", "s0"}}}}, {{"as_int", 3}}});
  SmallArchive wide;  // with stride 0, the element count can exceed 64 bits
  wide.weights["config"]["part.weight"]["tensor_meta"]["sizes"] = {{{"as_int", 1LL << 62}},
                                                                   {{"as_int", 4}}};
  wide.weights["config"]["part.weight"]["tensor_meta"]["strides"] = {{{"as_int", 0}},
                                                                     {{"as_int", 1}}};
  EXPECT_EQ(refused(wide).fact(), "the sizes [4611686018427387904, 4] overflow 64 bits");
}

TEST(GraphFaultsTest, RefusesToReadATensorThatIsNotDescribed) {
  SmallArchive archive;
  archive.program["graph_module"]["graph"]["tensor_values"].erase("linear");
  const Error error = error_of([&] { archive.read(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "the tensor 'linear' is read, but not described");
}

TEST(GraphFaultsTest, RefusesTablesThatSayOtherThanTheGraph) {
  EXPECT_EQ(refused_weights([](GraphJson& tensor) { tensor["tensor_meta"]["dtype"] = 4; }).fact(),
            "it is [2, 3] of int32, unlike in the graph");
  EXPECT_EQ(refused_weights([](GraphJson& tensor) {
              tensor["tensor_meta"] = test::tensor_json(7, {3, 2});
            }).fact(),
            "it is [3, 2] of float32, unlike in the graph");
}

TEST(GraphFaultsTest, OpensNoPickle) {
  EXPECT_EQ(refused_weights([](GraphJson& tensor) { tensor["use_pickle"] = true; }).fact(),
            "it is kept as a pickle, which is never opened");
  EXPECT_EQ(refused_weights([](GraphJson& tensor) { tensor["tensor_meta"] = nullptr; }).fact(),
            "it is kept as a pickle, which is never opened");
  SmallArchive unread;  // an entry that no graph reads is ignored
  unread.weights["config"]["other"] = {{"path_name", "custom_obj_0"},
                                       {"is_param", false},
                                       {"use_pickle", true},
                                       {"tensor_meta", nullptr}};
  EXPECT_EQ(unread.read().tensors.size(), 1u);
}

TEST(GraphFaultsTest, KnowsWeightsThatWereLeftOut) {
  SmallArchive archive;
  archive.record = "";
  const ExportedGraph graph = archive.read();
  EXPECT_EQ(graph.tensors[0].record, "");
  EXPECT_EQ(graph.tensors[0].bytes, 0);
  // This buffer is in no weights file, and the graph needs it.
  archive.program["graph_module"]["signature"]["input_specs"][0] = {
      {"buffer",
       {{"arg", {{"name", "p_part_weight"}}},
        {"buffer_name", "part.weight"},
        {"persistent", false}}}};
  EXPECT_EQ(refused(archive).fact(), "it has no bytes, and no file of weights has such tensors");
}

// ---- sluice.json ----

GraphJson small_facts() {
  return GraphJson::parse(R"({
    "format": 1, "tool": "1", "ties": [], "outputs": ["logits"], "loss": null, "weights": true,
    "sizes": [{"name": "rows", "symbol": "s0", "example": 2}]
  })");
}

TEST(GraphFaultsTest, RefusesFactsThatAreNotTheGraphs) {
  const auto with = [](const std::function<void(GraphJson & facts)>& change) {
    GraphJson facts = small_facts();
    change(facts);
    return refused({.facts = facts.dump()}).fact();
  };
  EXPECT_EQ((SmallArchive{.facts = small_facts().dump()}).read().training.outputs[0].name,
            "logits");
  EXPECT_EQ(with([](GraphJson& facts) { facts["format"] = 2; }), "it has the format 2, not 1");
  EXPECT_EQ(with([](GraphJson& facts) {
              facts["outputs"] = GraphJson::array({"a", "b"});
            }),
            "it names 2 outputs, but the graph has 1");
  EXPECT_EQ(
      with([](GraphJson& facts) { facts["ties"] = GraphJson::parse(R"([["a", "part.weight"]])"); }),
      "it ties 'a', which the archive does not have");
  EXPECT_EQ(with([](GraphJson& facts) {
              facts["loss"] = {{"output", "loss"}};
            }),
            "its loss is the output 'loss', which does not exist");
  EXPECT_EQ(with([](GraphJson& facts) { facts["sizes"][0]["symbol"] = "s1"; }),
            "its size 'rows' is 's1', which no input has");
  EXPECT_EQ(with([](GraphJson& facts) { facts["ties"] = GraphJson::parse(R"([["a"]])"); }),
            "a tie does not have two names");
  EXPECT_EQ(refused({.facts = small_facts().dump(), .record = ""}).fact(),
            "it says that weights are in the archive, but 'part.weight' has no bytes");
  for (const char* key : {"format", "ties", "sizes"})
    EXPECT_EQ(with([&](GraphJson& facts) { facts.erase(key); }),
              "'" + std::string(key) + "' is missing");
}

TEST(GraphFaultsTest, UsesTheModelsNamesOfInputsAndResults) {
  SmallArchive archive;
  const auto spec = [](const std::string& children) {
    return "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"Big\\\", \\\"rest\\\"]\", "
           "\"children_spec\": [" +
           children + "]}]";
  };
  const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
  const std::string pair =
      R"({"type": "builtins.list", "context": "null", "children_spec": [)" + leaf + "]}";
  const auto read = [&](const std::string& in_spec, const std::string& out_spec) {
    archive.program["graph_module"]["module_call_graph"] = std::vector<GraphJson>{
        {{"fqn", ""},
         {"signature",
          {{"in_spec", in_spec}, {"out_spec", out_spec}, {"forward_arg_names", {"Ids", "Mask"}}}}}};
    const GraphModule module = archive.read().training;
    return module.inputs[1].name + " " + module.outputs[0].name;
  };
  const std::string positional =
      R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [
      {"type": "builtins.tuple", "context": "null", "children_spec": [)" +
      leaf + R"(]},
      {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])";
  EXPECT_EQ(read(positional, "[1, " + leaf + "]"), "Ids output");
  const std::string empty = R"({"type": "builtins.tuple", "context": "null", "children_spec": []})";
  EXPECT_EQ(read(positional, spec(empty + ", " + pair)), "Ids rest_0");
  EXPECT_EQ(read("", ""), "x output");
  EXPECT_EQ(read("[1, {}]", "[1, {\"type\": 3}]"), "x output");
  EXPECT_EQ(read(positional, spec(leaf + ", " + leaf)), "Ids output");  // more names than results
}

TEST(GraphFaultsTest, ReadsSourceLocationOfNodes) {
  const auto read = [](const std::string& stack, const std::string& trace) {
    SmallArchive archive;
    graph_of(archive.program)["nodes"][0]["metadata"] = {{"nn_module_stack", stack},
                                                         {"stack_trace", trace}};
    const GraphNode node = archive.read().training.nodes[0];
    return node.module_path() + " " + (node.modules.empty() ? "" : node.modules.back().key) + " " +
           node.source;
  };
  EXPECT_EQ(read("L__self__,,M;L__self__a.b@2,a.b,m.B", "modeling.py:12"),
            "a.b a.b@2 modeling.py:12");
  EXPECT_EQ(read("L__self__,,M", ""), "  ");
  EXPECT_EQ(read("_empty_nn_module_stack_from_metadata_hook,x,y", ""), "  ");
  EXPECT_EQ(read("nothing;,;,,", "File \"x"), "  ");
  EXPECT_EQ(read("",
                 "  File \"/a/model.py\", line 3, in f\n    x\n  File \"/b/torch/nn/f.py\", line "
                 "9, in g\n    y"),
            "  model.py:3");
  EXPECT_EQ(read("", "  File \"/b/torch/nn/f.py\", line 9, in g"), "  f.py:9");
}

TEST(GraphFaultsTest, RefusesAnEvaluationGraphOfOtherTensors) {
  GraphJson other = test::small_program();
  EXPECT_TRUE((SmallArchive{.evaluation = other.dump()}).read().evaluation.has_value());
  other["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] = "other";
  EXPECT_EQ(refused({.evaluation = other.dump()}).fact(),
            "the tables of the archive do not have the tensor 'other'");
}

}  // namespace
}  // namespace sluice::detail
