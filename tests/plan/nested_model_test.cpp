#include "family/nested.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "family/families.h"
#include "family/qwen.h"
#include "sluice/error.h"
#include "sluice/model_spec.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::nested_model_test {
namespace {

using Json = nlohmann::json;

Json text_of(const std::string& type) {
  return {{"model_type", type},      {"vocab_size", 96},       {"hidden_size", 32},
          {"intermediate_size", 48}, {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}};
}

Json llava(const Json& text = text_of("llama")) {
  return {{"model_type", "llava"},
          {"tie_word_embeddings", false},
          {"text_config", text},
          {"vision_config", {{"model_type", "clip_vision_model"}}}};
}

ModelSpec parse(const Json& config) { return parse_model_spec(config.dump(), "config.json"); }

std::string tied_to(const ModelSpec& model) { return model.layers.back().parameters.at(0).tied_to; }

class Directory {
 public:
  Directory(const Json& config, const std::vector<std::string>& names) {
    Json index;
    for (const std::string& name : names)
      index["weight_map"][name] = "model-00001-of-00001.safetensors";
    test::write_file(folder_ / "config.json", config.dump());
    test::write_file(folder_ / "model.safetensors.index.json", index.dump());
  }
  std::string path() const { return folder_.str(); }

 private:
  test::TempDirectory folder_;
};

TEST(NestedModelTest, NamesAreThoseOfTheFiles) {
  struct Layout {
    std::string first_norm, embedding, head;
  };
  for (const Layout& layout :
       {Layout{"language_model.model.layers.0.input_layernorm.weight",
               "language_model.model.embed_tokens", "language_model.lm_head"},
        Layout{"model.language_model.layers.0.input_layernorm.weight",
               "model.language_model.embed_tokens", "lm_head"},
        Layout{"model.text_model.layers.0.input_layernorm.weight", "model.text_model.embed_tokens",
               "lm_head"},
        Layout{"model.layers.0.input_layernorm.weight", "model.embed_tokens", "lm_head"}}) {
    // Tensors come in the module's order, where the first parameter need not be the norm.
    const std::string block =
        layout.first_norm.substr(0, layout.first_norm.find("input_layernorm"));
    std::vector<std::string> stored;
    for (const char* name : {"self_attn.q_proj", "input_layernorm", "mlp.gate_proj"})
      stored.push_back(block + name + ".weight");
    const Directory directory(llava(), stored);
    const ModelSpec model = read_model_spec(directory.path());
    EXPECT_EQ(model.layers.front().name, layout.embedding);
    EXPECT_EQ(model.layers.front().parameters.at(0).name, layout.embedding + ".weight");
    EXPECT_EQ(model.layers.at(1).name + ".", block);
    EXPECT_EQ(model.layers.back().name, layout.head);
    EXPECT_EQ(model.layers.back().parameters.at(0).name, layout.head + ".weight");
  }
}

TEST(NestedModelTest, WithoutFilesNamesAreThoseThatTransformersHasInMemory) {
  EXPECT_EQ(parse(llava()).layers.at(1).name, "model.language_model.layers.0");
  EXPECT_EQ(parse(llava()).layers.back().name, "lm_head");
  Json config = llava();
  config["model_type"] = "smolvlm";
  EXPECT_EQ(parse(config).layers.at(1).name, "model.text_model.layers.0");
}

TEST(NestedModelTest, TheWholeConfigurationIsKeptForWritingItBack) {
  const Json config = llava();
  const ModelSpec model = parse(config);
  EXPECT_EQ(model.family, "llama");
  EXPECT_EQ(Json::parse(model.config_text), config);
  EXPECT_TRUE(detail::is_inside_vision_language(model.config_text));
  EXPECT_FALSE(detail::is_inside_vision_language(text_of("llama").dump()));
}

TEST(NestedModelTest, TheHeadIsTiedWhereItIsInTransformers) {
  for (const bool text_says : {false, true}) {
    Json config = llava();
    config["text_config"]["tie_word_embeddings"] = text_says;
    EXPECT_EQ(tied_to(parse(config)).empty(), !text_says);
    config["tie_word_embeddings"] = true;
    EXPECT_EQ(tied_to(parse(config)), "model.language_model.embed_tokens.weight");
    // Without the outer field, each model type has the default of its class in transformers.
    config.erase("tie_word_embeddings");
    EXPECT_EQ(tied_to(parse(config)).empty(), !text_says);
    config["model_type"] = "llava_next";
    EXPECT_EQ(tied_to(parse(config)), "");
    config["tie_word_embeddings"] = true;
    EXPECT_NE(tied_to(parse(config)), "");
    config.erase("tie_word_embeddings");
    config["model_type"] = "mistral3";
    EXPECT_EQ(tied_to(parse(config)), "model.language_model.embed_tokens.weight");
  }
}

TEST(NestedModelTest, AnUnknownLanguageModelIsRefusedByItsField) {
  const Error error = test::error_of([] { parse(llava(text_of("fuyu_text"))); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "model family 'fuyu_text' is not known");
  EXPECT_EQ(error.where(), "config.json, field 'text_config.model_type'");
}

TEST(NestedModelTest, AWholeWhoseTextIsNotItsLanguageModelsIsRefused) {
  Json config = llava();
  config["model_type"] = "paligemma";
  const Error error = test::error_of([&] { parse(config); });
  EXPECT_EQ(error.fact(), "model family 'paligemma' is not known");
  EXPECT_EQ(error.where(), "config.json, field 'model_type'");
}

TEST(NestedModelTest, WhatTransformersLeavesOutOfAWholeIsRefusedByItsField) {
  struct Case {
    const char *family, *key;
    Json refused, taken;
  };
  for (const Case& given : {Case{"gemma3_text", "final_logit_softcapping", 30.0, nullptr},
                            Case{"gemma2", "final_logit_softcapping", 30.0, nullptr},
                            Case{"granite", "logits_scaling", 8.0, 1.0},
                            Case{"mixtral", "output_router_logits", true, false},
                            Case{"olmoe", "output_router_logits", true, false},
                            Case{"qwen3_moe", "output_router_logits", true, false}}) {
    Json config = llava(text_of(given.family));
    config["text_config"][given.key] = given.taken;
    EXPECT_NO_THROW(parse(config)) << given.family;
    config["text_config"][given.key] = given.refused;
    EXPECT_NO_THROW(parse(config["text_config"])) << given.family;
    const Error error = test::error_of([&] { parse(config); });
    EXPECT_EQ(error.where(), std::string("config.json, field 'text_config.") + given.key + "'")
        << given.family;
  }
  // Gemma 2 has soft caps by default, even if the configuration does not mention them.
  EXPECT_THROW(parse(llava(text_of("gemma2"))), Error);
  EXPECT_NO_THROW(parse(llava(text_of("gemma3_text"))));
}

TEST(NestedModelTest, ATextConfigWithoutATypeIsOfTheTypeOfItsClass) {
  Json config = llava();
  config["text_config"].erase("model_type");
  EXPECT_EQ(parse(config).family, "llama");
  config["model_type"] = "internvl";
  EXPECT_EQ(parse(config).family, "qwen2");
}

TEST(NestedModelTest, PositionsInThreePartsAreOneInText) {
  Json config = {{"model_type", "qwen2_5_vl"}, {"text_config", text_of("qwen2_5_vl_text")}};
  config["text_config"]["rope_parameters"] = {
      {"rope_type", "default"}, {"rope_theta", 77.0}, {"mrope_section", {1, 1, 2}}};
  const ModelSpec model = parse(config);
  EXPECT_EQ(model.family, "qwen2");
  EXPECT_EQ(detail::config_of(model, detail::read_qwen2_config).ropes.at(0).theta, 77.0);
}

TEST(NestedModelTest, TheFirstConfigurationsOfQwen2VlAreOneObject) {
  Json config = text_of("qwen2_vl");
  config["vision_config"] = {{"depth", 1}, {"hidden_size", 32}};
  config["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {1, 1, 2}}};
  config["tie_word_embeddings"] = true;
  const ModelSpec model = parse(config);
  EXPECT_EQ(model.family, "qwen2");
  EXPECT_EQ(tied_to(model), "model.language_model.embed_tokens.weight");
  const auto decoder = detail::config_of(model, detail::read_qwen2_config);
  EXPECT_EQ(decoder.ropes.at(0).theta, 1e6);
  EXPECT_EQ(decoder.norm_eps, 1e-5);
}

// Values of transformers 5.23.
TEST(NestedModelTest, AFieldThatIsLeftOutIsThatOfItsClass) {
  struct Sizes {
    std::int64_t vocabulary, hidden, inner, layers, query, key;
    bool operator==(const Sizes&) const = default;
  };
  const auto sizes_of = [](const Json& config) {
    const ModelSpec model = parse(config);
    const auto rows = [&](const std::string& name) -> std::int64_t {
      for (const ParameterSpec& parameter : model.layers.at(1).parameters) {
        if (parameter.name.ends_with(name + ".weight")) return parameter.shape.at(0);
      }
      return 0;
    };
    return Sizes{model.vocab_size,  model.layers.front().parameters.at(0).shape.at(1),
                 rows("gate_proj"), model.num_blocks(),
                 rows("q_proj"),    rows("k_proj")};
  };
  const Sizes llama = {32000, 4096, 11008, 32, 4096, 4096};
  const Sizes qwen2 = {151936, 4096, 22016, 32, 4096, 4096};
  const Sizes qwen2_vl = {152064, 8192, 29568, 80, 8192, 1024};
  const Sizes gemma3 = {262208, 2304, 9216, 26, 2048, 1024};
  const Sizes mistral = {32000, 4096, 14336, 32, 4096, 1024};
  const Sizes mistral3 = {131072, 5120, 32768, 40, 4096, 1024};
  const std::vector<std::tuple<std::string, Sizes, Sizes>> wholes = {
      {"gemma3", gemma3, gemma3},       {"idefics3", llama, llama},
      {"internvl", qwen2, qwen2},       {"llava", llama, llama},
      {"llava_next", llama, llama},     {"llava_onevision", qwen2, qwen2},
      {"mistral3", mistral, mistral3},  {"qwen2_5_vl", qwen2_vl, qwen2_vl},
      {"qwen2_vl", qwen2_vl, qwen2_vl}, {"qwen3_vl", qwen2, qwen2},
      {"smolvlm", llama, llama}};
  for (const auto& [type, with_empty_text, without_text] : wholes) {
    EXPECT_EQ(sizes_of({{"model_type", type}, {"text_config", Json::object()}}), with_empty_text)
        << type;
    EXPECT_EQ(sizes_of({{"model_type", type}}), without_text) << type;
  }
  // The shape of gemma-3-4b-it and llava-1.5-7b-hf configurations written by transformers 4.
  const Json gemma = {{"hidden_size", 2560},
                      {"intermediate_size", 10240},
                      {"model_type", "gemma3_text"},
                      {"num_hidden_layers", 34}};
  EXPECT_EQ(sizes_of({{"model_type", "gemma3"}, {"text_config", gemma}}),
            (Sizes{262208, 2560, 10240, 34, 2048, 1024}));
  EXPECT_EQ(sizes_of(llava({{"model_type", "llama"}, {"vocab_size", 32064}})),
            (Sizes{32064, 4096, 11008, 32, 4096, 4096}));
}

TEST(NestedModelTest, AHeadIsTiedAsTheClassOfTheTextTiesIt) {
  const auto is_tied = [](const std::string& whole, const std::string& text) {
    Json config = {{"model_type", whole}, {"text_config", text_of(text)}};
    config["text_config"]["head_dim"] = 8;
    config["text_config"]["pad_token_id"] = 0;
    return !tied_to(parse(config)).empty();
  };
  for (const char* tied : {"gemma3_text", "smollm3"}) {
    EXPECT_TRUE(is_tied("llava", tied)) << tied;
    EXPECT_FALSE(is_tied("llava_next", tied)) << tied;
  }
  EXPECT_FALSE(is_tied("llava", "llama"));
}

TEST(NestedModelTest, SizesBesideATextConfigAreNotItsSizes) {
  Json config = llava();
  config["vocab_size"] = 50;
  config["hidden_size"] = 64;
  const ModelSpec model = parse(config);
  EXPECT_EQ(model.vocab_size, 96);
  EXPECT_EQ(model.layers.front().parameters.at(0).shape, (std::vector<std::int64_t>{96, 32}));
}

TEST(NestedModelTest, ASizeThatIsNullIsRefused) {
  Json text = text_of("llama");
  text["vocab_size"] = nullptr;
  EXPECT_NE(test::message_of([&] { parse(llava(text)); }).find("text_config.vocab_size"),
            std::string::npos);
}

TEST(NestedModelTest, AHeadOfQwen2VlHasItsShareOfTheHiddenSize) {
  Json text = text_of("qwen2_vl_text");
  text["head_dim"] = 64;
  const ModelSpec model = parse({{"model_type", "qwen2_vl"}, {"text_config", text}});
  for (const ParameterSpec& parameter : model.layers.at(1).parameters) {
    if (parameter.name.ends_with("k_proj.weight")) {
      EXPECT_EQ(parameter.shape.at(0), 16);
    }
  }
}

}  // namespace
}  // namespace sluice::nested_model_test
