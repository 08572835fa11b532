#include "sluice/lora.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kind/adapter_files.h"
#include "sluice/error.h"
#include "sluice/plan.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::lora_test {
namespace {

std::string below_tests(const std::string& path) {
  return std::string(SLUICE_TEST_DATA) + "/" + path;
}

template <typename Call>
void expect_error(Call call, ErrorKind kind, const std::string& says) {
  const Error error = test::error_of(call);
  EXPECT_EQ(error.kind(), kind) << error.what();
  EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
}

ModelSpec llama() { return read_model_spec(below_tests("reference/models_extra/grouped_query")); }
ModelSpec gpt2() {
  return read_model_spec(below_tests("reference/models_extra/gpt2_untied_inner"));
}

std::vector<std::string> names_of(const Adapter& adapter) {
  std::vector<std::string> names;
  for (const AdaptedLinear& layer : adapter.layers) names.push_back(layer.name);
  return names;
}

TEST(LoraTest, PatternsChooseLinearLayersByTheirFullNames) {
  const Adapter adapter = make_adapter(llama(), {.rank = 2, .target = {"*.1.mlp.*", "lm_head"}});
  EXPECT_EQ(names_of(adapter),
            (std::vector<std::string>{"model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj",
                                      "model.layers.1.mlp.down_proj", "lm_head"}));
  EXPECT_EQ(adapter.layers[0].in, 32);
  EXPECT_EQ(adapter.layers[0].out, 32);
  EXPECT_EQ(adapter.layers[3].out, 40);
  EXPECT_EQ(adapter.scale(adapter.layers[0]), 8.0);
}

TEST(LoraTest, TheMatricesOfGpt2AreStoredTheOtherWayAround) {
  const Adapter adapter = make_adapter(gpt2(), {.rank = 2, .target = {"*c_attn", "lm_head"}});
  ASSERT_EQ(adapter.layers.size(), 3u);
  EXPECT_EQ(adapter.layers[0].in, 24);
  EXPECT_EQ(adapter.layers[0].out, 72);
  EXPECT_TRUE(adapter.layers[0].transposed);
  EXPECT_FALSE(adapter.layers[2].transposed);
}

TEST(LoraTest, TheRestOfTheModelIsFrozenAndAdaptersFollowTheirLayer) {
  const ModelSpec base = llama();
  const ModelSpec spec = with_adapter(base, make_adapter(base, {.rank = 3}));
  const LayerInfo& block = spec.layers[1];
  ASSERT_GE(block.parameters.size(), 3u);
  EXPECT_EQ(block.parameters[0].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_FALSE(block.parameters[0].trainable);
  EXPECT_EQ(block.parameters[1].name, "model.layers.0.self_attn.q_proj.lora_A.weight");
  EXPECT_EQ(block.parameters[1].shape, (std::vector<std::int64_t>{3, 32}));
  EXPECT_TRUE(block.parameters[1].trainable);
  EXPECT_EQ(block.parameters[2].name, "model.layers.0.self_attn.q_proj.lora_B.weight");
  EXPECT_FALSE(spec.layers.front().trains());
  EXPECT_FALSE(spec.layers.back().trains());
  EXPECT_TRUE(has_adapter(spec));
  EXPECT_FALSE(has_adapter(without_adapter(spec)));
  EXPECT_EQ(without_adapter(spec).num_parameters(), base.num_parameters());
  // q maps 32 to 32, v maps 32 to 8, in two blocks.
  EXPECT_EQ(adapter_alone(spec).num_parameters(), 2 * 3 * (32 + 32 + 32 + 8));
}

TEST(LoraTest, APlanLeavesOutTheBackwardBelowTheFirstAdapter) {
  const ModelSpec base = llama();
  const Adapter adapter = make_adapter(base, {.rank = 3, .target = {"*layers.1.*"}});
  const Plan plan = plan_pipeline(with_adapter(base, adapter),
                                  {.num_ranks = 2, .num_microbatches = 2, .seq_len = 16});
  ASSERT_EQ(plan.partition.stages.size(), 2u);
  EXPECT_EQ(plan.partition.stages[0].backward, StageBackward::kNone);
  EXPECT_EQ(plan.ranks[0].memory.optimizer_bytes, 0);
  EXPECT_GT(plan.ranks[1].memory.optimizer_bytes, 0);
}

TEST(LoraTest, RefusesWhatMatchesNothingWithTheNearestName) {
  expect_error([] { make_adapter(llama(), {.rank = 2, .target = {"*q_porj"}}); }, ErrorKind::kUsage,
               "did you mean '*q_proj'?");
  expect_error([] { make_adapter(llama(), {.rank = 2, .target = {"*embed_tokens"}}); },
               ErrorKind::kUsage, "matches no linear layer");
  expect_error([] { make_adapter(llama(), {.rank = 2, .target = {}}); }, ErrorKind::kUsage,
               "names no linear layer");
  expect_error([] { make_adapter(llama(), {.rank = 0}); }, ErrorKind::kUsage, "give at least 1");
}

TEST(LoraTest, AHeadThatIsTiedToTheEmbeddingIsLeftOutOfAllAndRefusedByName) {
  const ModelSpec tied = read_model_spec(below_tests("reference/models_extra/qwen2_tied"));
  expect_error([&] { make_adapter(tied, {.rank = 2, .target = {"lm_head"}}); }, ErrorKind::kUsage,
               "'lm_head' is tied to the embedding");
  expect_error(
      [&] {
        make_adapter(tied, {.rank = 2, .target = {"*", "lm_*"}});
      },
      ErrorKind::kUsage, "'lm_head' is tied to the embedding");
  const std::vector<std::string> all = names_of(make_adapter(tied, {.rank = 2, .target = {"*"}}));
  EXPECT_EQ(all.size(), 7u * 2);
  EXPECT_EQ(std::count(all.begin(), all.end(), "lm_head"), 0);
}

TEST(LoraTest, RoutersAndExpertsAreNoLinearLayersToPeft) {
  ModelSpec model;
  LayerInfo& block = model.layers.emplace_back();
  block.name = "layers.0";
  for (const char* name :
       {"attn.gate", "mlp.gate", "mlp.experts.0.up_proj", "mlp.experts.1.up_proj"})
    block.parameters.push_back({"layers.0." + std::string(name) + ".weight", {4, 8}, {}});
  EXPECT_EQ(names_of(make_adapter(model, {.rank = 1, .target = {"*"}})),
            std::vector<std::string>{"layers.0.attn.gate"});
}

TEST(LoraTest, RefusesTheAdapterOfAnotherModel) {
  const Adapter adapter = make_adapter(llama(), {.rank = 2});
  expect_error([&] { with_adapter(gpt2(), adapter); }, ErrorKind::kUsage,
               "the model has no linear layer 'model.layers.0.self_attn.q_proj'");
}

TEST(AdapterConfigTest, NamesTheLastPartsWhereTheyAreEnough) {
  const ModelSpec base = llama();
  const auto targets = [&](const std::vector<std::string>& target) {
    const Adapter adapter = make_adapter(base, {.rank = 2, .target = target});
    return nlohmann::json::parse(adapter_config(adapter, base, "/models/base"))
        .at("target_modules")
        .get<std::vector<std::string>>();
  };
  EXPECT_EQ(targets({"*q_proj", "*.mlp.up_proj"}), (std::vector<std::string>{"q_proj", "up_proj"}));
  EXPECT_EQ(targets({"*.1.self_attn.q_proj"}),
            std::vector<std::string>{"model.layers.1.self_attn.q_proj"});
}

TEST(AdapterConfigTest, PeftsDirectoriesAreReadAndWrittenAlike) {
  for (const std::string name : {"plain", "all_linear", "patterns", "head", "conv1d"}) {
    SCOPED_TRACE(name);
    const std::string folder = below_tests("reference/adapters/" + name);
    const ModelSpec base =
        read_model_spec(below_tests("reference/models_extra/" + base_of_adapter(folder)));
    const Adapter adapter = read_adapter(folder, base);
    const test::TempDirectory again;
    test::write_file(again / "adapter_config.json", adapter_config(adapter, base, "base"));
    test::write_file(again / "adapter_model.safetensors",
                     test::read_file(folder + "/adapter_model.safetensors"));
    const Adapter read = read_adapter(again.str(), base);
    ASSERT_EQ(names_of(read), names_of(adapter));
    for (std::size_t i = 0; i < read.layers.size(); ++i) {
      EXPECT_EQ(read.layers[i].rank, adapter.layers[i].rank);
      EXPECT_EQ(read.scale(read.layers[i]), adapter.scale(adapter.layers[i]));
    }
    EXPECT_EQ(base_of_adapter(again.str()), "base");
  }
}

TEST(AdapterConfigTest, PatternsOfRankAndAlphaHoldForTheLayersThatTheyEnd) {
  const Adapter adapter =
      read_adapter(below_tests("reference/adapters/patterns"),
                   read_model_spec(below_tests("reference/models_extra/qwen2")));
  EXPECT_TRUE(adapter.rank_stabilized);
  for (const AdaptedLinear& layer : adapter.layers) {
    EXPECT_EQ(layer.rank, layer.name.ends_with("up_proj") ? 5 : 3) << layer.name;
    EXPECT_EQ(layer.alpha, layer.name == "model.layers.1.self_attn.o_proj" ? 2 : 8) << layer.name;
  }
}

// A copy of a PEFT adapter directory that tests can damage.
class AdapterDirectoryTest : public ::testing::Test {
 protected:
  AdapterDirectoryTest() {
    const std::string source = below_tests("reference/adapters/plain");
    config_ = nlohmann::json::parse(test::read_file(source + "/adapter_config.json"));
    tensors_ = test::read_file(source + "/adapter_model.safetensors");
  }

  Adapter read() const {
    test::write_file(folder_ / "adapter_config.json", config_.dump());
    test::write_file(folder_ / "adapter_model.safetensors", tensors_);
    return read_adapter(folder_.str(), llama());
  }

  void expect_refused(const std::string& says) const {
    expect_error([&] { read(); }, ErrorKind::kInput, says);
  }

  // Renames a tensor in the header. Both names must have the same length.
  void rename(const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    const std::size_t at = tensors_.find(from);
    ASSERT_NE(at, std::string::npos);
    tensors_.replace(at, from.size(), to);
  }

  nlohmann::json config_;
  std::string tensors_;
  const test::TempDirectory folder_;
};

TEST_F(AdapterDirectoryTest, RefusesFieldsThatAreNotImplementedByTheirNames) {
  const std::vector<std::pair<std::string, nlohmann::json>> fields = {
      {"peft_type", "LOHA"},
      {"task_type", "SEQ_CLS"},
      {"bias", "all"},
      {"use_dora", true},
      {"lora_bias", true},
      {"use_qalora", true},
      {"modules_to_save", {"lm_head"}},
      {"layers_to_transform", {0}},
      {"layer_replication", {{0, 1}}},
      {"target_parameters", {"mlp.experts.gate_up_proj"}},
      {"trainable_token_indices", {1, 2}},
      {"alora_invocation_tokens", {1}},
      {"init_lora_weights", "pissa"},
      {"some_new_field", 3},
      {"r", 0},
      {"r", "8"},
      {"lora_alpha", -1},
      {"lora_dropout", 1},
      {"target_modules", 3},
      {"target_modules", nlohmann::json::array()},
      {"rank_pattern", {{"^model.*q_proj", 3}}},
  };
  const nlohmann::json whole = config_;
  for (const auto& [field, value] : fields) {
    config_ = whole;
    config_[field] = value;
    SCOPED_TRACE(field);
    expect_refused("field '" + field);
  }
}

TEST_F(AdapterDirectoryTest, RefusesTensorsThatAreMissingUnexpectedOrOfAnotherShape) {
  const std::string whole = tensors_;
  config_["r"] = 8;
  expect_refused("expected shape [8, 32], found [4, 32]");
  config_["r"] = 4;
  config_["target_modules"] = {"q_proj", "v_proj", "o_proj"};
  expect_refused("target_modules names its layer");
  config_["target_modules"] = {"q_proj", "v_proj"};
  rename("layers.0.self_attn.q_proj.lora_A", "layers.0.self_attn.q_porj.lora_A");
  expect_refused("the model has no linear layer 'model.layers.0.self_attn.q_porj'");
  tensors_ = whole;
  rename("layers.0.self_attn.q_proj.lora_A", "layers.0.self_attn.q_proj.lora_C");
  expect_refused("it is not a matrix of an adapter");
  tensors_ = whole;
  rename("layers.0.self_attn.q_proj.lora_A", "layers.0.self_attn.o_proj.lora_A");
  expect_refused("target_modules does not name its layer");
  config_["target_modules"] = R"(model\.layers\.(0\.self_attn\.[oqv]|1\.self_attn\.[qv])_proj)";
  expect_refused("the tensor is missing; ");
  config_["target_modules"] = {"q_proj", "v_proj"};
  tensors_ = whole.substr(0, whole.size() - 1);
  expect_refused("adapter_model.safetensors");
}

TEST_F(AdapterDirectoryTest, RefusesTensorsOfLayersThatTargetModulesDoesNotName) {
  const std::string tensor =
      "tensor 'base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight'";
  for (const nlohmann::json& targets :
       {nlohmann::json{"q_proj"}, nlohmann::json(".*q_proj"),
        nlohmann::json(R"((?!.*v_proj)model\.layers\.\d+\.self_attn\.[qv]_proj)")}) {
    config_["target_modules"] = targets;
    expect_refused("target_modules does not name its layer");
    expect_refused(tensor);
  }
  config_["target_modules"] = R"(model\.layers\.\d+\.self_attn\.[qv]_proj)";
  EXPECT_EQ(read().layers.size(), 4u);
  config_["target_modules"] = "model.*";
  expect_refused("the tensor is missing: target_modules names its layer");
}

TEST_F(AdapterDirectoryTest, RefusesTensorsOfLayersThatExcludeModulesLeavesOut) {
  const auto tensor = [](const std::string& layer) {
    return "tensor 'base_model.model.model.layers." + layer + ".lora_A.weight'";
  };
  for (const nlohmann::json& excluded : {nlohmann::json{"q_proj"}, nlohmann::json(".*q_proj")}) {
    config_["exclude_modules"] = excluded;
    expect_refused("exclude_modules leaves its layer out");
    expect_refused(tensor("0.self_attn.q_proj"));
  }
  config_["exclude_modules"] = "model.layers.1.*";
  expect_refused(tensor("1.self_attn.q_proj"));
  for (const nlohmann::json& nothing :
       {nlohmann::json(), nlohmann::json(""), nlohmann::json::array(), nlohmann::json("q_proj"),
        nlohmann::json{"o_proj", "mlp"}}) {
    config_["exclude_modules"] = nothing;
    EXPECT_EQ(read().layers.size(), 4u) << nothing;
  }
  // The linear layers that are neither excluded nor the head are exactly the layers with tensors.
  config_["target_modules"] = "all-linear";
  config_["exclude_modules"] = {"k_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  EXPECT_EQ(read().layers.size(), 4u);
}

TEST_F(AdapterDirectoryTest, RefusesExpressionsThatItCannotMatchByTheirField) {
  config_["target_modules"] = "(?<=model).*";
  expect_refused("the group '(?<=' is not known; " + (folder_ / "adapter_config.json") +
                 ", field 'target_modules'; write a list of names");
  config_["target_modules"] = {"q_proj", "v_proj"};
  config_["exclude_modules"] = "a**";
  expect_refused("field 'exclude_modules'");
  config_["exclude_modules"] = "(((.?){200}){200}){200}";
  expect_refused("it takes too long to match");
}

TEST_F(AdapterDirectoryTest, RefusesOneLayerByItsNumber) {
  config_["layers_to_transform"] = 0;
  expect_refused("field 'layers_to_transform'");
}

TEST_F(AdapterDirectoryTest, PointsFromAPickleToSafetensors) {
  test::write_file(folder_ / "adapter_config.json", config_.dump());
  test::write_file(folder_ / "adapter_model.bin", "");
  expect_error([&] { read_adapter(folder_.str(), llama()); }, ErrorKind::kInput,
               "adapter_model.bin is a pickle");
}

TEST_F(AdapterDirectoryTest, PatternsThatContradictEachOtherAreRefused) {
  config_["rank_pattern"] = {{"q_proj", 4}, {"self_attn.q_proj", 5}};
  expect_refused("two patterns match 'model.layers.0.self_attn.q_proj'");
}

}  // namespace
}  // namespace sluice::lora_test
