#include "kind/hf_names.h"

#include <algorithm>

namespace sluice {

std::span<const HfNames> hf_names() {
  constexpr std::string_view kRotary = ".rotary_emb.inv_freq";
  static const std::vector<HfNames> table = {
      {"llama", "LlamaForCausalLM", "model.", {kRotary}},
      {"gpt2",
       "GPT2LMHeadModel",
       "transformer.",
       {".attn.bias", ".attn.masked_bias", ".position_ids"}},
      {"qwen2", "Qwen2ForCausalLM", "model.", {kRotary}},
      {"mistral", "MistralForCausalLM", "model.", {kRotary}},
      {"qwen3", "Qwen3ForCausalLM", "model.", {kRotary}},
      {"gemma2", "Gemma2ForCausalLM", "model.", {kRotary}},
      {"gemma3_text", "Gemma3ForCausalLM", "model.", {kRotary}},
      {"olmo2", "Olmo2ForCausalLM", "model.", {kRotary}},
      {"granite", "GraniteForCausalLM", "model.", {kRotary}},
      {"smollm3", "SmolLM3ForCausalLM", "model.", {kRotary}},
      {"mixtral", "MixtralForCausalLM", "model.", {kRotary}},
      {"qwen3_moe", "Qwen3MoeForCausalLM", "model.", {kRotary}},
      {"olmoe", "OlmoeForCausalLM", "model.", {kRotary}},
      {"phi3", "Phi3ForCausalLM", "model.", {kRotary}},
      {"gpt_neox",
       "GPTNeoXForCausalLM",
       "gpt_neox.",
       {".attention.bias", ".attention.masked_bias", kRotary}},
      {"starcoder2", "Starcoder2ForCausalLM", "model.", {kRotary}},
  };
  return table;
}

const HfNames* find_hf_names(std::string_view model_type) {
  const auto found = std::find_if(hf_names().begin(), hf_names().end(), [&](const HfNames& names) {
    return names.model_type == model_type;
  });
  return found == hf_names().end() ? nullptr : &*found;
}

}  // namespace sluice
