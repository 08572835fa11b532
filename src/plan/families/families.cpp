#include "plan/families/families.h"

#include <algorithm>
#include <set>
#include <utility>

#include "plan/families/decoder_model.h"
#include "plan/families/fused.h"
#include "plan/families/gemma.h"
#include "plan/families/gpt2.h"
#include "plan/families/gpt_neox.h"
#include "plan/families/llama.h"
#include "plan/families/moe.h"
#include "plan/families/olmo2.h"
#include "plan/families/phi3.h"
#include "plan/families/qwen.h"

namespace sluice::detail {

namespace {

template <DecoderConfig (*read)(const ConfigReader&)>
Family decoder(std::string name, std::string architecture) {
  const auto model = [](const ConfigReader& config, const Precision& precision) {
    return decoder_model(read(config), precision);
  };
  return {
      std::move(name), std::move(architecture), "model.", {".rotary_emb.inv_freq"}, model, read};
}

template <MoeConfig (*read)(const ConfigReader&)>
Family with_experts(std::string name, std::string architecture) {
  const auto model = [](const ConfigReader& config, const Precision& precision) {
    return moe_model(read(config), precision);
  };
  const auto of_decoder = [](const ConfigReader& config) { return read(config).decoder; };
  return {std::move(name), std::move(architecture), "model.", {".rotary_emb.inv_freq"}, model,
          of_decoder};
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      decoder<read_llama_config>("llama", "LlamaForCausalLM"),
      {"gpt2",
       "GPT2LMHeadModel",
       "transformer.",
       {".attn.bias", ".attn.masked_bias", ".position_ids"},
       read_gpt2,
       /*decoder=*/nullptr,
       /*conv1d=*/true},
      decoder<read_qwen2_config>("qwen2", "Qwen2ForCausalLM"),
      decoder<read_mistral_config>("mistral", "MistralForCausalLM"),
      decoder<read_qwen3_config>("qwen3", "Qwen3ForCausalLM"),
      decoder<read_gemma2_config>("gemma2", "Gemma2ForCausalLM"),
      decoder<read_gemma3_config>("gemma3_text", "Gemma3ForCausalLM"),
      decoder<read_olmo2_config>("olmo2", "Olmo2ForCausalLM"),
      decoder<read_granite_config>("granite", "GraniteForCausalLM"),
      decoder<read_smollm3_config>("smollm3", "SmolLM3ForCausalLM"),
      with_experts<read_mixtral_config>("mixtral", "MixtralForCausalLM"),
      with_experts<read_qwen3_moe_config>("qwen3_moe", "Qwen3MoeForCausalLM"),
      with_experts<read_olmoe_config>("olmoe", "OlmoeForCausalLM"),
      decoder<read_phi3_config>("phi3", "Phi3ForCausalLM"),
      {"gpt_neox",
       "GPTNeoXForCausalLM",
       "gpt_neox.",
       {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
       read_gpt_neox},
  };
  return table;
}

const Family* find_family(const std::string& name) {
  const auto found = std::find_if(families().begin(), families().end(),
                                  [&](const Family& family) { return family.name == name; });
  return found == families().end() ? nullptr : &*found;
}

double mask_bytes(const ModelSpec& model, const std::vector<int>& layers, std::int64_t length) {
  const Family* family = find_family(model.family);
  if (!family || !family->decoder || model.config_text.empty()) return 0.0;
  const DecoderConfig config = config_of(model, family->decoder);
  std::set<std::int64_t> windows;  // that bite; 0: none, which soft caps need written down
  const int first = model.block_range().first;
  for (const int layer : layers) {
    if (model.layers.at(layer).role != LayerRole::kBlock) continue;
    const bool is_fused = !(model.layers.at(layer).cost.pooled == PooledBytes());
    if (is_fused && fuses_attention(config)) continue;  // nothing of every pair is written down
    const std::int64_t window = config.blocks.at(layer - first).window;
    if (window > 0 && window < length)
      windows.insert(window);
    else if (config.attention_cap)
      windows.insert(0);
  }
  const auto pairs = static_cast<double>(length) * static_cast<double>(length);
  const auto bytes = static_cast<double>(dtype_bytes(model.layers.back().writes.front().dtype));
  return static_cast<double>(windows.size()) * bytes * pairs;
}

}  // namespace sluice::detail
