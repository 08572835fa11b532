#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "family/families.h"
#include "family/gemma.h"
#include "family/llama.h"
#include "family/olmo2.h"
#include "family/qwen.h"
#include "plan/predict/memory.h"
#include "sluice/error.h"
#include "sluice/model_spec.h"
#include "support/expect_error.h"

namespace sluice::decoder_families_test {
namespace {

using Json = nlohmann::json;
using detail::DecoderConfig;

Json tiny(const std::string& family) {
  return {{"model_type", family},     {"vocab_size", 96},       {"hidden_size", 32},
          {"intermediate_size", 48},  {"num_hidden_layers", 4}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"pad_token_id", nullptr}};
}

// Counts activations as LibTorch's unfused operators keep them.
ModelSpec parse(const Json& config) {
  return parse_model_spec(config.dump(), "config.json", {.fused = false});
}

DecoderConfig config_of(const Json& config, DecoderConfig (*read)(const detail::ConfigReader&)) {
  return detail::config_of(parse(config), read);
}

std::string refusal(const Json& config) {
  return test::message_of([&] { parse(config); });
}

std::vector<std::int64_t> windows(const DecoderConfig& config) {
  std::vector<std::int64_t> windows;
  for (const detail::BlockConfig& block : config.blocks) windows.push_back(block.window);
  return windows;
}

// Lists the parameters of the first block without the block's name, such as
// "self_attn.q_proj.weight [32, 32]".
std::vector<std::string> block_parameters(const ModelSpec& model) {
  std::vector<std::string> lines;
  for (const ParameterSpec& parameter : model.layers[1].parameters) {
    std::string line = parameter.name.substr(model.layers[1].name.size() + 1) + " [";
    for (std::size_t i = 0; i < parameter.shape.size(); ++i)
      line += (i ? ", " : "") + std::to_string(parameter.shape[i]);
    lines.push_back(line + "]");
  }
  return lines;
}

double kept(const ModelSpec& model, std::size_t layer) {
  return model.layers.at(layer).cost.after_forward.at({1, 1});
}

using Windows = std::vector<std::int64_t>;

TEST(DecoderFamiliesTest, MistralHasOneWindowForAllLayersUnlessItIsNull) {
  Json config = tiny("mistral");
  EXPECT_EQ(windows(config_of(config, detail::read_mistral_config)), Windows(4, 4096));
  config["sliding_window"] = 5;
  EXPECT_EQ(windows(config_of(config, detail::read_mistral_config)), Windows(4, 5));
  config["sliding_window"] = nullptr;
  EXPECT_EQ(windows(config_of(config, detail::read_mistral_config)), Windows(4, 0));
  config["sliding_window"] = 0;
  EXPECT_NE(refusal(config).find("field 'sliding_window'"), std::string::npos);
}

TEST(DecoderFamiliesTest, MistralTakesEightKeyValueHeadsWhereNoneAreNamed) {
  Json config = tiny("mistral");
  config["num_attention_heads"] = 16;
  config.erase("num_key_value_heads");
  EXPECT_EQ(config_of(config, detail::read_mistral_config).num_key_value_heads, 8);
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(config_of(config, detail::read_mistral_config).num_key_value_heads, 16);
}

TEST(DecoderFamiliesTest, Qwen2HasWindowsBehindTheFirstLayersOrWhereTheTypesSaySo) {
  Json config = tiny("qwen2");
  config["sliding_window"] = 6;
  EXPECT_EQ(windows(config_of(config, detail::read_qwen2_config)), Windows(4, 0));
  config["use_sliding_window"] = true;
  EXPECT_EQ(windows(config_of(config, detail::read_qwen2_config)), Windows(4, 0));
  config["max_window_layers"] = 1;
  EXPECT_EQ(windows(config_of(config, detail::read_qwen2_config)), (Windows{0, 6, 6, 6}));
  config["max_window_layers"] = 0;
  EXPECT_EQ(windows(config_of(config, detail::read_qwen2_config)), Windows(4, 6));
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention",
                           "full_attention"};
  EXPECT_EQ(windows(config_of(config, detail::read_qwen2_config)), (Windows{0, 6, 0, 0}));
  config["use_sliding_window"] = false;
  EXPECT_NE(refusal(config).find("layer 1 is of sliding_attention, but there is no window; "
                                 "config.json, field 'layer_types'"),
            std::string::npos)
      << refusal(config);
}

TEST(DecoderFamiliesTest, LayerTypesAreKnownAndOneForEveryLayer) {
  Json config = tiny("qwen3");
  config["layer_types"] = {"full_attention"};
  EXPECT_NE(refusal(config).find("1 types for 4 layers; config.json, field 'layer_types'"),
            std::string::npos)
      << refusal(config);
  config["layer_types"] = Json::array();
  EXPECT_NE(refusal(config).find("0 types for 4 layers"), std::string::npos);
  config["layer_types"] = {"full_attention", "chunked_attention", "full_attention",
                           "full_attention"};
  EXPECT_NE(refusal(config).find("'chunked_attention' is not implemented"), std::string::npos);
  config["layer_types"] = {1, 2, 3, 4};
  EXPECT_NE(refusal(config).find("1 is not a string"), std::string::npos);
  config["layer_types"] = "full_attention";
  EXPECT_NE(refusal(config).find("is not a list"), std::string::npos);
}

TEST(DecoderFamiliesTest, Qwen3HasNormsOfEveryHeadAndItsOwnHeadSize) {
  Json config = tiny("qwen3");
  EXPECT_EQ(config_of(config, detail::read_qwen3_config).head_dim, 128);
  config["head_dim"] = 6;
  EXPECT_EQ(block_parameters(parse(config)),
            (std::vector<std::string>{
                "self_attn.q_proj.weight [24, 32]", "self_attn.k_proj.weight [12, 32]",
                "self_attn.v_proj.weight [12, 32]", "self_attn.o_proj.weight [32, 24]",
                "self_attn.q_norm.weight [6]", "self_attn.k_norm.weight [6]",
                "mlp.gate_proj.weight [48, 32]", "mlp.up_proj.weight [48, 32]",
                "mlp.down_proj.weight [32, 48]", "input_layernorm.weight [32]",
                "post_attention_layernorm.weight [32]"}));
  const double with = kept(parse(config), 1);
  config["model_type"] = "mistral";
  // Kept in addition: queries and keys once more in float32 and normalized, and one inverse root
  // per head.
  EXPECT_EQ(with - kept(parse(config), 1), 4 * (2 * 24 + 2 * 12 + 4 + 2));
}

TEST(DecoderFamiliesTest, Gemma2HasFourNormsAndEverySecondWindow) {
  Json config = tiny("gemma2");
  config["head_dim"] = 6;
  config["sliding_window"] = 7;
  config["pad_token_id"] = 3;
  const ModelSpec model = parse(config);
  EXPECT_EQ(block_parameters(model),
            (std::vector<std::string>{
                "self_attn.q_proj.weight [24, 32]", "self_attn.k_proj.weight [12, 32]",
                "self_attn.v_proj.weight [12, 32]", "self_attn.o_proj.weight [32, 24]",
                "mlp.gate_proj.weight [48, 32]", "mlp.up_proj.weight [48, 32]",
                "mlp.down_proj.weight [32, 48]", "input_layernorm.weight [32]",
                "post_attention_layernorm.weight [32]", "pre_feedforward_layernorm.weight [32]",
                "post_feedforward_layernorm.weight [32]"}));
  EXPECT_EQ(model.layers.back().parameters[0].tied_to, "model.embed_tokens.weight");
  const DecoderConfig read = config_of(config, detail::read_gemma2_config);
  EXPECT_EQ(windows(read), (Windows{7, 0, 7, 0}));
  EXPECT_EQ(read.attention_cap, 50.0);
  EXPECT_EQ(read.logit_cap, 30.0);
  EXPECT_EQ(read.attention_scale, 1.0 / 16);
  EXPECT_EQ(read.padding_row, 3);
  config.erase("pad_token_id");
  EXPECT_EQ(config_of(config, detail::read_gemma2_config).padding_row, 0);
  config["attn_logit_softcapping"] = config["final_logit_softcapping"] = nullptr;
  EXPECT_EQ(config_of(config, detail::read_gemma2_config).attention_cap, std::nullopt);
  EXPECT_EQ(config_of(config, detail::read_gemma2_config).logit_cap, std::nullopt);
  config["sliding_window"] = nullptr;
  EXPECT_NE(refusal(config).find("layer 0 is of sliding_attention, but there is no window"),
            std::string::npos);
  config["use_bidirectional_attention"] = true;
  EXPECT_NE(refusal(config).find("field 'use_bidirectional_attention'"), std::string::npos);
}

TEST(DecoderFamiliesTest, SoftCapsKeepTheSquareOfTheLength) {
  Json config = tiny("gemma2");
  const auto kept_of = [&](std::int64_t length) {
    return parse(config).layers[1].cost.after_forward.at({1, length}) -
           parse(config).layers[1].cost.after_forward.constant;
  };
  // The soft cap keeps a tanh and a probability for every head and every pair of tokens.
  EXPECT_EQ(kept_of(64) - 2 * kept_of(32), 4 * 2 * 4 * (64 * 64 - 2 * 32 * 32));
  config["attn_logit_softcapping"] = nullptr;
  EXPECT_EQ(kept_of(64), 2 * kept_of(32));
}

TEST(DecoderFamiliesTest, Gemma3HasAnglesOfItsOwnForLayersWithWindows) {
  Json config = tiny("gemma3_text");
  config["sliding_window"] = 5;
  config["num_hidden_layers"] = 7;
  DecoderConfig read = config_of(config, detail::read_gemma3_config);
  EXPECT_EQ(windows(read), (Windows{5, 5, 5, 5, 5, 0, 5}));
  EXPECT_EQ(read.ropes[read.blocks[5].rope].theta, 1e6);
  EXPECT_EQ(read.ropes[read.blocks[0].rope].theta, 1e4);
  EXPECT_EQ(read.logit_cap, std::nullopt);
  Json old_keys = config;
  old_keys["rope_theta"] = 500.0;
  old_keys["rope_local_base_freq"] = 30.0;
  old_keys["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  old_keys["sliding_window_pattern"] = 2;
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"rope_theta", 500.0}, {"factor", 8.0}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 30.0}}}};
  for (const Json& given : {old_keys, config}) {
    read = config_of(given, detail::read_gemma3_config);
    EXPECT_EQ(read.ropes[0].type, "linear");
    EXPECT_EQ(read.ropes[0].theta, 500.0);
    EXPECT_EQ(read.ropes[0].factor, 8.0);
    EXPECT_EQ(read.ropes[1].type, "default");
    EXPECT_EQ(read.ropes[1].theta, 30.0);
  }
  EXPECT_EQ(windows(config_of(old_keys, detail::read_gemma3_config)),
            (Windows{5, 0, 5, 0, 5, 0, 5}));
  config["rope_parameters"] = {{"rope_type", "default"}};
  EXPECT_NE(refusal(config).find("field 'rope_parameters.rope_type'"), std::string::npos);
}

TEST(DecoderFamiliesTest, Olmo2HasNormsBehindItsPartsAndOverAllHeads) {
  Json config = tiny("olmo2");
  config["attention_bias"] = true;
  EXPECT_EQ(block_parameters(parse(config)),
            (std::vector<std::string>{
                "self_attn.q_proj.weight [32, 32]", "self_attn.q_proj.bias [32]",
                "self_attn.k_proj.weight [16, 32]", "self_attn.k_proj.bias [16]",
                "self_attn.v_proj.weight [16, 32]", "self_attn.v_proj.bias [16]",
                "self_attn.o_proj.weight [32, 32]", "self_attn.o_proj.bias [32]",
                "self_attn.q_norm.weight [32]", "self_attn.k_norm.weight [16]",
                "mlp.gate_proj.weight [48, 32]", "mlp.up_proj.weight [48, 32]",
                "mlp.down_proj.weight [32, 48]", "post_attention_layernorm.weight [32]",
                "post_feedforward_layernorm.weight [32]"}));
  EXPECT_EQ(config_of(config, detail::read_olmo2_config).norm_eps, 1e-5);
  config.erase("pad_token_id");
  EXPECT_EQ(config_of(config, detail::read_olmo2_config).padding_row, 1);
}

TEST(DecoderFamiliesTest, GraniteMultipliesEmbeddingsScoresAndResiduals) {
  Json config = tiny("granite");
  EXPECT_EQ(config_of(config, detail::read_granite_config).attention_scale, 1.0);
  config["embedding_multiplier"] = 12;
  config["attention_multiplier"] = 0.25;
  config["residual_multiplier"] = 0.5;
  config["logits_scaling"] = 4.0;
  const DecoderConfig read = config_of(config, detail::read_granite_config);
  EXPECT_EQ(read.embedding_scale, 12.0);
  EXPECT_EQ(read.attention_scale, 0.25);
  EXPECT_EQ(read.residual_scale, 0.5);
  EXPECT_EQ(read.logit_divisor, 4.0);
  config["logits_scaling"] = 0;
  EXPECT_NE(refusal(config).find("field 'logits_scaling'"), std::string::npos);
}

TEST(DecoderFamiliesTest, SmolLM3TurnsNothingInEveryFourthLayer) {
  const auto turned = [](const Json& config) {
    std::string layers;
    for (const detail::BlockConfig& block : config_of(config, detail::read_smollm3_config).blocks)
      layers += block.rope < 0 ? '0' : '1';
    return layers;
  };
  Json config = tiny("smollm3");
  EXPECT_EQ(turned(config), "1110");
  EXPECT_EQ(config_of(config, detail::read_smollm3_config).ropes[0].theta, 2e6);
  config["no_rope_layer_interval"] = 2;
  EXPECT_EQ(turned(config), "1010");
  config["no_rope_layers"] = {0, 0, 1, 1, 1};
  EXPECT_EQ(turned(config), "0011");
  config["sliding_window"] = 3;
  EXPECT_EQ(windows(config_of(config, detail::read_smollm3_config)), Windows(4, 0));
  config["use_sliding_window"] = true;
  EXPECT_EQ(windows(config_of(config, detail::read_smollm3_config)), (Windows{3, 3, 0, 0}));
  config["no_rope_layers"] = {0, 1};
  EXPECT_NE(refusal(config).find("2 entries for 4 layers; config.json, field 'no_rope_layers'"),
            std::string::npos);
  config["no_rope_layers"] = {0, 1, 2, 1};
  EXPECT_NE(refusal(config).find("2 is not a whole number between 0 and 1"), std::string::npos);
  config.erase("pad_token_id");
  EXPECT_NE(refusal(config).find("field 'pad_token_id'"), std::string::npos);
}

TEST(DecoderFamiliesTest, YarnScalesByItsFactorOrByWhatItIsTold) {
  Json config = tiny("qwen3");
  config["max_position_embeddings"] = 4096;
  const auto rope_with = [&](const Json& more) {
    config["rope_parameters"] = {{"rope_type", "yarn"}, {"rope_theta", 500.0}, {"factor", 4.0}};
    config["rope_parameters"].update(more);
    return config_of(config, detail::read_qwen3_config).ropes[0];
  };
  EXPECT_EQ(rope_with(Json::object()).original_max_position_embeddings, 4096);
  EXPECT_NEAR(rope_with(Json::object()).attention_factor, 1.138629436, 1e-9);
  EXPECT_EQ(rope_with({{"attention_factor", 0.5}}).attention_factor, 0.5);
  EXPECT_NEAR(rope_with({{"mscale", 2.0}, {"mscale_all_dim", 0.5}}).attention_factor,
              1.277258872 / 1.069314718, 1e-9);
  EXPECT_EQ(rope_with({{"beta_fast", nullptr}, {"beta_slow", 2}}).beta_fast, 32.0);
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"beta_fast", 1.0}};
  EXPECT_NE(refusal(config).find("'beta_fast' does nothing with rope_type 'linear'"),
            std::string::npos);
}

// The model needs one mask with the window and one without, however many layers use each mask.
TEST(DecoderFamiliesTest, AMaskIsCountedOnceForAllLayers) {
  Json config = tiny("gemma2");
  config["sliding_window"] = 7;
  const ModelSpec gemma2 = parse(config);
  const double mask = 4 * 16 * 16;
  EXPECT_EQ(detail::mask_bytes(gemma2, {0, 1, 2, 3, 4, 5, 6}, 16), 2 * mask);
  EXPECT_EQ(detail::mask_bytes(gemma2, {1, 3}, 16), mask);
  EXPECT_EQ(detail::mask_bytes(gemma2, {1, 2}, 7), 4 * 7 * 7);
  EXPECT_EQ(detail::mask_bytes(gemma2, {0, 5}, 16), 0);
  config["model_type"] = "mistral";
  config["pad_token_id"] = nullptr;
  EXPECT_EQ(detail::mask_bytes(parse(config), {1, 2, 3, 4}, 16), mask);
  EXPECT_EQ(detail::mask_bytes(parse(config), {1, 2, 3, 4}, 7), 0);
  EXPECT_EQ(detail::mask_bytes(parse(tiny("llama")), {1, 2, 3, 4}, 4096), 0);
}

TEST(DecoderFamiliesTest, ReluKeepsNoGate) {
  Json config = tiny("llama");
  const double silu = kept(parse(config), 1);
  config["hidden_act"] = "gelu_pytorch_tanh";
  EXPECT_EQ(kept(parse(config), 1), silu);
  config["hidden_act"] = "relu";
  EXPECT_EQ(silu - kept(parse(config), 1), 4 * 48);
}

TEST(DecoderFamiliesTest, AttentionToLaterTokensIsRefused) {
  for (const detail::Family& family : detail::families()) {
    Json config = tiny(family.name);
    config["n_positions"] = 64;
    EXPECT_NO_THROW(parse(config)) << family.name;
    config["is_causal"] = false;
    EXPECT_NE(refusal(config).find("'is_causal' = false is not implemented; config.json, field "
                                   "'is_causal'; only one of [true] is"),
              std::string::npos)
        << family.name;
  }
}

TEST(DecoderFamiliesTest, KeysThatMakeAnotherModelOfItAreRefusedByTheirNames) {
  const std::vector<std::pair<std::string, Json>> other = {
      {"per_layer_config", {{"1", {{"rms_norm_eps", 0.5}}}}},
      {"attribute_map", {{"hidden_size", "vocab_size"}}},
      {"transformers_weights", "other.safetensors"},
      {"decoder", {{"hidden_size", 4}}},
      {"quantization_config", {{"bits", 4}}},
      {"default_rope_type", "axial"}};
  for (const auto& [key, value] : other) {
    Json config = tiny("llama");
    config[key] = value;
    EXPECT_NE(refusal(config).find("field '" + key + "'"), std::string::npos) << refusal(config);
  }
  Json config = tiny("llama");
  config.update({{"per_layer_config", nullptr}, {"attribute_map", Json::object()}});
  EXPECT_NO_THROW(parse(config));
}

TEST(DecoderFamiliesTest, KeysThatChangeNothingInTransformersChangeNothingHere) {
  const DecoderConfig plain = config_of(tiny("llama"), detail::read_llama_config);
  Json config = tiny("llama");
  config.update({{"sliding_window", 3},
                 {"layer_types", {"sliding_attention"}},
                 {"final_logit_softcapping", 3.0},
                 {"pretraining_tp", 4},
                 {"somebodys_own_key", {1, 2}}});
  const DecoderConfig same = config_of(config, detail::read_llama_config);
  EXPECT_EQ(windows(same), windows(plain));
  EXPECT_FALSE(same.logit_cap);
}

TEST(DecoderFamiliesTest, AnEmptyRopeScalingDoesNotHideRopeParameters) {
  Json config = tiny("llama");
  config["rope_parameters"] = {{"rope_type", "linear"}, {"rope_theta", 50.0}, {"factor", 3.0}};
  config["rope_scaling"] = Json::object();
  EXPECT_EQ(config_of(config, detail::read_llama_config).ropes.at(0).factor, 3.0);
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(config_of(config, detail::read_llama_config).ropes.at(0).factor, 2.0);
}

TEST(DecoderFamiliesTest, Gemma3ScalesByTheLengthInsideItsSettingsAlone) {
  Json config = tiny("gemma3_text");
  config.update({{"max_position_embeddings", 64},
                 {"original_max_position_embeddings", 8},
                 {"rope_scaling",
                  {{"rope_type", "llama3"},
                   {"factor", 4.0},
                   {"low_freq_factor", 1.0},
                   {"high_freq_factor", 4.0}}}});
  const auto length = [](const Json& json) {
    return config_of(json, detail::read_gemma3_config).ropes.at(0).original_max_position_embeddings;
  };
  EXPECT_EQ(length(config), 64);
  config["rope_scaling"]["original_max_position_embeddings"] = 16;
  EXPECT_EQ(length(config), 16);
  config["model_type"] = "llama";  // llama uses the outer value
  EXPECT_EQ(
      config_of(config, detail::read_llama_config).ropes.at(0).original_max_position_embeddings, 8);
}

TEST(DecoderFamiliesTest, Gemma3RefusesRotarySettingsThatTransformersWouldNotRead) {
  Json config = tiny("gemma3_text");
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 3.0}};
  EXPECT_NE(refusal(config).find("field 'rope_scaling.type'"), std::string::npos);
  EXPECT_NE(refusal(config).find("write it as rope_type"), std::string::npos);
  config["rope_scaling"] = {{"type", "default"}};
  EXPECT_NO_THROW(parse(config));
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 3.0}, {"truncate", false}};
  EXPECT_NE(refusal(config).find("field 'rope_scaling.truncate'"), std::string::npos);
  config["rope_scaling"]["truncate"] = true;
  EXPECT_NO_THROW(parse(config));
}

TEST(DecoderFamiliesTest, UnknownActivationsAreRefusedWithThoseThatAreKnown) {
  Json config = tiny("qwen2");
  config["hidden_act"] = "quick_gelu";
  const std::string message = refusal(config);
  EXPECT_NE(message.find("'quick_gelu' is not implemented; config.json, field 'hidden_act'"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace sluice::decoder_families_test
