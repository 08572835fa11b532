#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "family/families.h"
#include "family/gpt_neox.h"
#include "family/moe.h"
#include "family/phi3.h"
#include "family/starcoder2.h"
#include "sluice/error.h"
#include "sluice/model_spec.h"

namespace sluice::more_families_test {
namespace {

using Json = nlohmann::json;

Json tiny(const std::string& family) {
  return {{"model_type", family},       {"vocab_size", 40},       {"hidden_size", 16},
          {"intermediate_size", 12},    {"num_hidden_layers", 3}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2},   {"num_experts", 6},       {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 8}, {"pad_token_id", nullptr}};
}

ModelSpec parse(const Json& config) { return parse_model_spec(config.dump(), "config.json"); }

std::string refusal(const Json& config) {
  try {
    parse(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "nothing";
}

std::string refusal_of(const std::string& family, const std::string& key, const Json& value) {
  Json config = tiny(family);
  config[key] = value;
  return refusal(config);
}

bool has_parameter(const LayerInfo& layer, const std::string& name) {
  return std::any_of(layer.parameters.begin(), layer.parameters.end(),
                     [&](const ParameterSpec& parameter) { return parameter.name == name; });
}

TEST(MoreFamiliesTest, ExpertsHaveTheNamesOfTheFiles) {
  const ModelSpec mixtral = parse(tiny("mixtral"));
  EXPECT_TRUE(
      has_parameter(mixtral.layers[1], "model.layers.0.block_sparse_moe.experts.5.w2.weight"));
  EXPECT_TRUE(has_parameter(mixtral.layers[1], "model.layers.0.block_sparse_moe.gate.weight"));
  const ModelSpec olmoe = parse(tiny("olmoe"));
  EXPECT_TRUE(has_parameter(olmoe.layers[3], "model.layers.2.mlp.experts.0.down_proj.weight"));
  EXPECT_EQ(olmoe.layers[1].parameters.size(), 4u + 2u + 1u + 6u * 3u + 2u);
}

TEST(MoreFamiliesTest, ATokenCountsAtTheExpertsThatItMeetsAndMemoryAtAll) {
  const auto flops = [](Json config, const char* key, int value) {
    config[key] = value;
    return parse(config).layers[1].cost.forward_flops.at({1, 1});
  };
  const Json config = tiny("mixtral");
  // One more expert per token adds 3 matrices of 12 x 16. One more expert to choose from adds a row
  // to the router.
  EXPECT_EQ(flops(config, "num_experts_per_tok", 3) - flops(config, "num_experts_per_tok", 2),
            2 * 3 * 12 * 16);
  EXPECT_EQ(flops(config, "num_experts", 7) - flops(config, "num_experts", 6), 2 * 16);
  Json wide = config;
  wide["num_experts"] = 7;
  EXPECT_EQ(parse(wide).num_parameters() - parse(config).num_parameters(), 3 * (3 * 12 * 16 + 16));
}

TEST(MoreFamiliesTest, Qwen3MoeHasExpertsWhereItsStepAndListLeaveThem) {
  Json config = tiny("qwen3_moe");
  config["num_hidden_layers"] = 6;
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {3};
  config["output_router_logits"] = true;
  const ModelSpec model = parse(config);
  std::vector<int> with_experts;
  for (int i = 0; i < 6; ++i) {
    const LayerInfo& layer = model.layers[static_cast<std::size_t>(i) + 1];
    const bool routes = has_parameter(layer, layer.name + ".mlp.gate.weight");
    if (routes) with_experts.push_back(i);
    EXPECT_EQ(routes, !has_parameter(layer, layer.name + ".mlp.gate_proj.weight"));
    ASSERT_EQ(layer.writes.size(), routes ? 2u : 1u);
    if (routes) {
      EXPECT_EQ(layer.writes[1].name, detail::balance_value(std::to_string(i)));
      EXPECT_EQ(layer.writes[1].sizes, std::vector<std::int64_t>());
    }
  }
  EXPECT_EQ(with_experts, (std::vector<int>{1, 5}));
}

TEST(MoreFamiliesTest, RefusesWhatExpertsCannotDoByItsField) {
  EXPECT_EQ(
      refusal_of("mixtral", "num_experts_per_tok", 7),
      "a token goes to 7 experts, but there are only 6; config.json, field 'num_experts_per_tok'; "
      "write at most their number");
  EXPECT_NE(refusal_of("mixtral", "router_jitter_noise", 0.1).find("'router_jitter_noise'"),
            std::string::npos);
  EXPECT_NE(refusal_of("mixtral", "num_local_experts", 4)
                .find("'num_experts' is 6 but 'num_local_experts' is 4"),
            std::string::npos);
  EXPECT_NE(refusal_of("olmoe", "clip_qkv", 8.0).find("'clip_qkv'"), std::string::npos);
  EXPECT_NE(refusal_of("olmoe", "head_dim", 8).find("'head_dim'"), std::string::npos);
  EXPECT_NE(refusal_of("qwen3_moe", "mlp_only_layers", {-1}).find("'mlp_only_layers'"),
            std::string::npos);
  EXPECT_NE(refusal_of("qwen3_moe", "decoder_sparse_step", 0).find("'decoder_sparse_step'"),
            std::string::npos);
  Json huge = tiny("qwen3_moe");
  huge["num_hidden_layers"] = 10000;
  huge["num_experts"] = 60000;
  EXPECT_NE(refusal(huge).find("more than 1e6 weights of experts"), std::string::npos);
}

TEST(MoreFamiliesTest, Phi3KnowsOldAndNewNamesOfLongrope) {
  const Json factors = {1.0, 2.0};
  for (const char* type : {"longrope", "su", "yarn"}) {
    Json config = tiny("phi3");
    config["original_max_position_embeddings"] = 1024;
    config["max_position_embeddings"] = 4096;
    config["rope_scaling"] = {{"type", type}, {"short_factor", factors}, {"long_factor", factors}};
    const detail::DecoderConfig read = detail::config_of(parse(config), detail::read_phi3_config);
    EXPECT_EQ(read.ropes[0].type, "longrope");
    EXPECT_EQ(read.ropes[0].original_max_position_embeddings, 1024);
    EXPECT_NEAR(read.ropes[0].attention_factor, 1.0954451, 1e-6);  // sqrt(1 + ln 4 / ln 1024)
  }
  Json config = tiny("phi3");
  config["rope_scaling"] = {
      {"type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", factors}};
  EXPECT_NE(refusal(config).find("1 and 2 numbers for 2 pairs"), std::string::npos)
      << refusal(config);
  config["rope_scaling"] = {{"type", "longrope"}, {"short_factor", factors}};
  EXPECT_NE(refusal(config).find("'rope_scaling.long_factor' is missing"), std::string::npos);
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_NE(refusal(config).find("'linear' is not implemented"), std::string::npos);
  EXPECT_NE(refusal_of("phi3", "resid_pdrop", 0.1).find("'resid_pdrop'"), std::string::npos);
  EXPECT_NE(refusal_of("phi3", "partial_rotary_factor", 0.3).find("'partial_rotary_factor'"),
            std::string::npos);
}

TEST(MoreFamiliesTest, Phi3HasOneMatrixForQueriesKeysAndValuesAndOneForGateAndUp) {
  const ModelSpec model = parse(tiny("phi3"));
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : model.layers[1].parameters)
    names.push_back(parameter.name.substr(std::string("model.layers.0.").size()));
  EXPECT_EQ(names, (std::vector<std::string>{"self_attn.o_proj.weight", "self_attn.qkv_proj.weight",
                                             "mlp.gate_up_proj.weight", "mlp.down_proj.weight",
                                             "input_layernorm.weight",
                                             "post_attention_layernorm.weight"}));
  EXPECT_EQ(model.layers[1].parameters[1].shape, (std::vector<std::int64_t>{16 + 2 * 8, 16}));
}

TEST(MoreFamiliesTest, GptNeoxReadsItsOwnNamesOfRotarySettings) {
  Json config = tiny("gpt_neox");
  const auto read = [&] { return detail::config_of(parse(config), detail::read_gpt_neox_config); };
  config["rotary_pct"] = 0.5;
  config["rotary_emb_base"] = 500;
  config["rope_theta"] = 7.0;
  EXPECT_EQ(read().rotary_dim, 2);
  EXPECT_EQ(read().rope.theta, 500.0);
  config["rope_parameters"] = {
      {"rope_type", "default"}, {"rope_theta", 300.0}, {"partial_rotary_factor", 1.0}};
  EXPECT_EQ(read().rotary_dim, 4);
  EXPECT_EQ(read().rope.theta, 300.0);
  config.erase("rope_parameters");
  config.erase("rotary_pct");
  EXPECT_NE(refusal(config).find("1 of the 4 channels"), std::string::npos) << refusal(config);
}

TEST(MoreFamiliesTest, GptNeoxTurnsAPartOfItsOwnHeadsAlone) {
  Json config = tiny("gpt_neox");
  config["rotary_pct"] = 1.0;
  for (const Json& own : {Json(), Json(4)}) {
    config["head_dim"] = own;
    EXPECT_NO_THROW(parse(config)) << own;
  }
  config["head_dim"] = 8;  // transformers would rotate 8 channels although a head has 4
  EXPECT_NE(refusal(config).find("field 'head_dim'"), std::string::npos) << refusal(config);
}

TEST(MoreFamiliesTest, TheHeadOfGptNeoxIsEmbedOut) {
  Json config = tiny("gpt_neox");
  config["rotary_pct"] = 1.0;
  config["tie_word_embeddings"] = true;
  const ModelSpec model = parse(config);
  EXPECT_EQ(model.layers.back().name, "embed_out");
  EXPECT_EQ(model.layers.back().parameters[0].name, "embed_out.weight");
  EXPECT_EQ(model.layers.back().parameters[0].tied_to, "gpt_neox.embed_in.weight");
  config["attention_bias"] = false;
  EXPECT_EQ(model.layers[1].parameters.size() - parse(config).layers[1].parameters.size(), 2u);
}

TEST(MoreFamiliesTest, Starcoder2HasTransformersNamesAndDefaults) {
  Json config = tiny("starcoder2");
  config["num_attention_heads"] = 8;
  config.erase("num_key_value_heads");
  const ModelSpec model = parse(config);
  const detail::DecoderConfig read = detail::config_of(model, detail::read_starcoder2_config);
  EXPECT_EQ(read.num_key_value_heads, 2);
  EXPECT_EQ(read.norm_eps, 1e-5);
  EXPECT_EQ(read.initializer_range, 0.018042);
  EXPECT_EQ(read.activation, detail::Activation::kGeluTanh);
  EXPECT_EQ(read.blocks[0].window, 0);
  const auto names = {"self_attn.q_proj", "self_attn.o_proj", "mlp.c_fc", "mlp.c_proj"};
  for (const std::string name : names) {
    EXPECT_TRUE(has_parameter(model.layers[1], "model.layers.0." + name + ".weight")) << name;
    EXPECT_TRUE(has_parameter(model.layers[1], "model.layers.0." + name + ".bias")) << name;
  }
  EXPECT_TRUE(has_parameter(model.layers[1], "model.layers.0.input_layernorm.bias"));
  EXPECT_FALSE(has_parameter(model.layers[1], "model.layers.0.mlp.gate_proj.weight"));
  EXPECT_EQ(model.layers.back().parameters[0].tied_to, "model.embed_tokens.weight");
  config["use_bias"] = false;
  EXPECT_EQ(model.layers[1].parameters.size() - parse(config).layers[1].parameters.size(), 6u);
}

TEST(MoreFamiliesTest, Starcoder2RefusesWhatItCannotRun) {
  EXPECT_NE(refusal_of("starcoder2", "hidden_act", "mish").find("'hidden_act'"), std::string::npos);
  EXPECT_NE(refusal_of("starcoder2", "residual_dropout", 1.5).find("'residual_dropout'"),
            std::string::npos);
  EXPECT_NE(refusal_of("starcoder2", "embedding_dropout", -0.1).find("'embedding_dropout'"),
            std::string::npos);
  EXPECT_NE(refusal_of("starcoder2", "sliding_window", 0).find("'sliding_window'"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::more_families_test
