#include "family/families.h"

#include <algorithm>
#include <utility>

#include "family/decoder_model.h"
#include "family/gemma.h"
#include "family/gpt2.h"
#include "family/gpt_neox.h"
#include "family/llama.h"
#include "family/moe.h"
#include "family/olmo2.h"
#include "family/phi3.h"
#include "family/qwen.h"
#include "family/starcoder2.h"

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
      decoder<read_starcoder2_config>("starcoder2", "Starcoder2ForCausalLM"),
  };
  return table;
}

const Family* find_family(const std::string& name) {
  const auto found = std::find_if(families().begin(), families().end(),
                                  [&](const Family& family) { return family.name == name; });
  return found == families().end() ? nullptr : &*found;
}

}  // namespace sluice::detail
