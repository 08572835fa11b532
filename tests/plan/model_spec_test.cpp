#include "sluice/model_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "family/families.h"
#include "family/llama.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::model_spec_test {
namespace {

using Json = nlohmann::json;

const std::string kModels = std::string(SLUICE_TEST_DATA) + "/reference/models/";

Json tiny_llama() {
  return {{"model_type", "llama"},   {"vocab_size", 96},       {"hidden_size", 32},
          {"intermediate_size", 48}, {"num_hidden_layers", 2}, {"num_attention_heads", 4}};
}

ModelSpec parse(const Json& config) { return parse_model_spec(config.dump(), "config.json"); }

detail::DecoderConfig llama_of(const Json& config) {
  return detail::config_of(parse(config), detail::read_llama_config);
}

std::string refusal(const std::string& text) {
  try {
    parse_model_spec(text, "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

std::string refusal_of(const std::string& key, const Json& value) {
  Json config = tiny_llama();
  config[key] = value;
  return refusal(config.dump());
}

TEST(ModelSpecTest, ReadsTheReferenceModelsWithTheirParameterCounts) {
  EXPECT_EQ(read_model_spec(kModels + "llama_untied").num_parameters(), 180800);
  EXPECT_EQ(read_model_spec(kModels + "llama_tied").num_parameters(), 242496);
  EXPECT_EQ(read_model_spec(kModels + "llama_tied").hidden_size(), 64);
  const ModelSpec gpt2 = read_model_spec(kModels + "gpt2/config.json");
  EXPECT_EQ(gpt2.family, "gpt2");
  EXPECT_EQ(gpt2.dtype, "float32");
  EXPECT_EQ(gpt2.num_parameters(), 220544);
  EXPECT_EQ(gpt2.hidden_size(), 64);
  EXPECT_EQ(model_spec_of_blocks(4).hidden_size(), 0);
  EXPECT_EQ(gpt2.layers.size(), 7u);
  EXPECT_EQ(gpt2.layers[0].module_names(),
            (std::vector<std::string>{"transformer.wte", "transformer.wpe"}));
}

TEST(ModelSpecTest, NamesTheParametersOfALlamaLayerInTheOrderOfTheModule) {
  Json config = tiny_llama();
  config["attention_bias"] = true;
  config["num_key_value_heads"] = 2;
  config["head_dim"] = 16;
  const ModelSpec spec = parse(config);
  ASSERT_EQ(spec.layers.size(), 5u);
  const LayerInfo& layer = spec.layers[2];
  EXPECT_EQ(layer.name, "model.layers.1");
  ASSERT_EQ(layer.parameters.size(), 13u);
  EXPECT_EQ(layer.parameters[0].name, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(layer.parameters[0].shape, (std::vector<std::int64_t>{64, 32}));
  EXPECT_EQ(layer.parameters[3].name, "model.layers.1.self_attn.k_proj.bias");
  EXPECT_EQ(layer.parameters[3].shape, (std::vector<std::int64_t>{32}));
  EXPECT_EQ(layer.parameters[6].shape, (std::vector<std::int64_t>{32, 64}));
  EXPECT_EQ(layer.parameters.back().name, "model.layers.1.post_attention_layernorm.weight");
}

TEST(ModelSpecTest, TakesTransformersDefaultsForAbsentAndNullFields) {
  Json config = tiny_llama();
  config["num_key_value_heads"] = nullptr;
  config["head_dim"] = nullptr;
  config["rope_scaling"] = nullptr;
  const detail::DecoderConfig read = llama_of(config);
  EXPECT_EQ(read.num_key_value_heads, 4);
  EXPECT_EQ(read.head_dim, 8);
  EXPECT_EQ(read.max_position_embeddings, 2048);
  EXPECT_EQ(read.norm_eps, 1e-6);
  EXPECT_EQ(read.ropes[0].theta, 10000.0);
  EXPECT_EQ(read.ropes[0].type, "default");
  EXPECT_FALSE(read.tie_word_embeddings);
  EXPECT_EQ(parse(config).dtype, "");
}

TEST(ModelSpecTest, ReadsOldAndNewRopeFieldsAlike) {
  const Json llama3 = {{"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  Json old_style = tiny_llama(), new_style = tiny_llama();
  old_style["rope_theta"] = 500000.0;
  old_style["rope_scaling"] = llama3;
  old_style["rope_scaling"]["type"] = "llama3";
  new_style["rope_parameters"] = llama3;
  new_style["rope_parameters"]["rope_type"] = "llama3";
  new_style["rope_parameters"]["rope_theta"] = 500000.0;
  for (const Json& config : {old_style, new_style}) {
    const detail::DecoderConfig read = llama_of(config);
    EXPECT_EQ(read.ropes[0].type, "llama3");
    EXPECT_EQ(read.ropes[0].theta, 500000.0);
    EXPECT_EQ(read.ropes[0].factor, 8.0);
    EXPECT_EQ(read.ropes[0].original_max_position_embeddings, 8192);
  }
  Json linear = tiny_llama();
  linear["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  EXPECT_EQ(llama_of(linear).ropes[0].type, "linear");
  EXPECT_EQ(llama_of(linear).ropes[0].factor, 2.0);
}

TEST(ModelSpecTest, Qwen2IsALlamaWithBiasesOnQueriesKeysAndValues) {
  Json config = tiny_llama();
  config["model_type"] = "qwen2";
  config["use_sliding_window"] = false;
  EXPECT_NE(refusal(config.dump()).find("field 'num_key_value_heads'"), std::string::npos);
  config["num_key_value_heads"] = 2;
  const ModelSpec spec = parse(config);
  std::vector<std::string> biases;
  for (const ParameterSpec& parameter : spec.layers[1].parameters) {
    if (parameter.name.ends_with("bias")) biases.push_back(parameter.name);
  }
  EXPECT_EQ(biases, (std::vector<std::string>{"model.layers.0.self_attn.q_proj.bias",
                                              "model.layers.0.self_attn.k_proj.bias",
                                              "model.layers.0.self_attn.v_proj.bias"}));
}

TEST(ModelSpecTest, RefusesRotarySettingsThatNoTypeUses) {
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const std::string untyped = refusal_of(field, {{"factor", 8.0}});
    EXPECT_NE(untyped.find("no rope_type uses it; config.json, field '" + std::string(field) +
                           ".factor'"),
              std::string::npos)
        << untyped;
    const std::string nested = refusal_of(
        field, {{"full_attention", {{"rope_type", "default"}}}, {"rope_type", "default"}});
    EXPECT_NE(nested.find("by layer type are not implemented; config.json, field '" +
                          std::string(field) + ".full_attention'"),
              std::string::npos)
        << nested;
  }
  Json config = tiny_llama();
  config["rope_parameters"] = {{"rope_theta", 500000.0}, {"factor", nullptr}};
  EXPECT_EQ(llama_of(config).ropes[0].theta, 500000.0);
}

TEST(ModelSpecTest, SettingsThatTheRotaryTypeDoesNotUseAreRefused) {
  Json config = tiny_llama();
  config["rope_parameters"] = {{"rope_type", "default"}, {"factor", 8.0}};
  EXPECT_EQ(test::message_of([&] { parse(config); }),
            "'factor' does nothing with rope_type 'default'; config.json, field "
            "'rope_parameters.factor'; leave it out, or write the rope_type that it is for");
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 8.0}, {"low_freq_factor", 1.0}};
  EXPECT_NE(test::message_of([&] { parse(config); }).find("'low_freq_factor' does nothing"),
            std::string::npos);
}

TEST(ModelSpecTest, ALanguageModelInsideAnotherIsRefusedButForPlanning) {
  Json config = tiny_llama();
  config["text_config"] = tiny_llama();
  config["text_config"]["num_hidden_layers"] = 7;
  const test::TempDirectory folder;
  test::write_file(folder / "config.json", config.dump());
  const Error error = test::error_of([&] { read_model_spec(folder / "config.json"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), (folder / "config.json") + ", field 'text_config'");
  EXPECT_EQ(read_language_model_spec(folder / "config.json").num_blocks(), 2);
  config["text_config"] = nullptr;
  EXPECT_EQ(parse(config).num_blocks(), 2);
}

TEST(ModelSpecTest, ThePaddingRowIsThatOfPadTokenId) {
  Json config = tiny_llama();
  EXPECT_EQ(llama_of(config).padding_row, -1);
  config["pad_token_id"] = 0;
  EXPECT_EQ(llama_of(config).padding_row, 0);
  config["pad_token_id"] = -1;
  EXPECT_EQ(llama_of(config).padding_row, 95);
  EXPECT_NE(refusal_of("pad_token_id", 96).find("is not a token of the vocabulary of 96"),
            std::string::npos);
  EXPECT_NE(refusal_of("pad_token_id", -97).find("field 'pad_token_id'"), std::string::npos);
  EXPECT_NE(refusal_of("pad_token_id", 1.5).find("field 'pad_token_id'"), std::string::npos);
}

TEST(ModelSpecTest, MarksTheTiedHead) {
  const ModelSpec tied = read_model_spec(kModels + "llama_tied");
  EXPECT_EQ(tied.layers.back().parameters[0].tied_to, "model.embed_tokens.weight");
  EXPECT_EQ(read_model_spec(kModels + "llama_untied").layers.back().parameters[0].tied_to, "");
  EXPECT_EQ(read_model_spec(kModels + "gpt2").layers.back().parameters[0].tied_to,
            "transformer.wte.weight");
}

TEST(ModelSpecTest, RefusesWhatItDoesNotImplementByName) {
  EXPECT_NE(refusal_of("model_type", "llamma").find("did you mean 'llama'?"), std::string::npos);
  EXPECT_NE(refusal_of("model_type", "t5").find("one of: llama, gpt2"), std::string::npos);
  EXPECT_NE(refusal_of("hidden_act", "mish").find("field 'hidden_act'"), std::string::npos);
  const std::string ntk = refusal_of("rope_scaling", {{"rope_type", "ntk"}, {"factor", 4.0}});
  EXPECT_NE(ntk.find("'ntk' is not implemented; config.json, field 'rope_scaling.rope_type'"),
            std::string::npos)
      << ntk;
  EXPECT_NE(
      refusal_of("rope_scaling", {{"type", "dynamic"}, {"factor", 4.0}}).find("rope_scaling.type"),
      std::string::npos);
  EXPECT_NE(refusal_of("rope_scaling", {{"type", "linear"}}).find("'rope_scaling.factor'"),
            std::string::npos);
  EXPECT_NE(refusal_of("quantization_config", Json::object()).find("quantized"), std::string::npos);
  EXPECT_NE(refusal_of("dtype", "float31").find("did you mean 'float32'?"), std::string::npos);
}

TEST(ModelSpecTest, RefusesHostileValuesWithFileAndField) {
  const std::vector<std::pair<std::string, Json>> hostile = {
      {"num_hidden_layers", 1000000000},
      {"num_hidden_layers", -1},
      {"num_hidden_layers", 0},
      {"num_hidden_layers", 2.5},
      {"hidden_size", "32"},
      {"hidden_size", nullptr},
      {"hidden_size", 33},
      {"num_attention_heads", 3},
      {"num_key_value_heads", 3},
      {"num_key_value_heads", 8},
      {"vocab_size", true},
      {"vocab_size", 18446744073709551615ull},
      {"head_dim", 7},
      {"head_dim", 1 << 29},
      {"rms_norm_eps", "1e-5"},
      {"rms_norm_eps", -1.0},
      {"rope_theta", 0},
      {"rope_scaling", "linear"},
      {"tie_word_embeddings", 1},
      {"attention_dropout", 1.5}};
  for (const auto& [key, value] : hostile) {
    const std::string message = refusal_of(key, value);
    EXPECT_NE(message.find("config.json"), std::string::npos)
        << key << " = " << value << " was taken";
    EXPECT_NE(message.find("field '"), std::string::npos) << message;
  }
  Json huge = tiny_llama();
  huge["hidden_size"] = huge["intermediate_size"] = huge["vocab_size"] = 1 << 30;
  EXPECT_NE(refusal(huge.dump()).find("more than 1e15 parameters"), std::string::npos);
}

TEST(ModelSpecTest, RefusesBrokenJsonWithItsPlace) {
  EXPECT_NE(refusal("{\n  \"a\": }").find("config.json:2:8"), std::string::npos)
      << refusal("{\n  \"a\": }");
  EXPECT_NE(refusal("").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("[]").find("is not a JSON object"), std::string::npos);
  EXPECT_NE(refusal("{\"a\": 1, \"a\": 2}").find("key 'a' appears twice"), std::string::npos);
  EXPECT_NE(refusal(std::string(100000, '[')).find("nested deeper than 64"), std::string::npos);
  EXPECT_NE(refusal("{\"a\": \"\xff\"}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("{} {}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("{\"a\": 1e999}").find("not valid JSON"), std::string::npos);
}

TEST(ModelSpecTest, SaysWhichPathIsMissing) {
  EXPECT_THROW(read_model_spec("/nonexistent/model"), Error);
  try {
    read_model_spec(kModels);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fact(), "the model folder has no config.json");
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
  }
}

}  // namespace
}  // namespace sluice::model_spec_test
