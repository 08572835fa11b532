// What the config.json of the decoder families means: settings, names, shapes, bytes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/families/families.h"
#include "plan/families/llama.h"
#include "plan/families/qwen.h"
#include "sluice/error.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using detail::DecoderConfig;

Json tiny(const std::string& family) {
  return {{"model_type", family},     {"vocab_size", 96},       {"hidden_size", 32},
          {"intermediate_size", 48},  {"num_hidden_layers", 4}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"pad_token_id", nullptr}};
}

ModelSpec parse(const Json& config) { return parse_model_spec(config.dump(), "config.json"); }

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

// "self_attn.q_proj.weight [32, 32]" of the first block, without its name.
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
  EXPECT_EQ(windows(config_of(config, detail::read_qwen2_config)), Windows(4, 0));  // from 28 on
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
  // Queries and keys once more in float32 and normalized, and one inverse root for each head.
  EXPECT_EQ(with - kept(parse(config), 1), 4 * (2 * 24 + 2 * 12 + 4 + 2));
}

TEST(DecoderFamiliesTest, ReluKeepsNoGate) {
  Json config = tiny("llama");
  const double silu = kept(parse(config), 1);
  config["hidden_act"] = "gelu_pytorch_tanh";
  EXPECT_EQ(kept(parse(config), 1), silu);
  config["hidden_act"] = "relu";
  EXPECT_EQ(silu - kept(parse(config), 1), 4 * 48);
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
}  // namespace sluice
