#include "plan/families/families.h"

#include <algorithm>

#include "plan/families/gpt2.h"
#include "plan/families/gpt_neox.h"
#include "plan/families/llama.h"
#include "plan/families/moe.h"
#include "plan/families/phi3.h"
#include "plan/families/qwen.h"

namespace sluice::detail {

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {"llama", "LlamaForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_llama},
      {"gpt2",
       "GPT2LMHeadModel",
       "transformer.",
       {".attn.bias", ".attn.masked_bias", ".position_ids"},
       read_gpt2},
      {"qwen2", "Qwen2ForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_qwen2},
      {"mistral", "MistralForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_mistral},
      {"qwen3", "Qwen3ForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_qwen3},
      {"mixtral", "MixtralForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_mixtral},
      {"qwen3_moe", "Qwen3MoeForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_qwen3_moe},
      {"olmoe", "OlmoeForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_olmoe},
      {"phi3", "Phi3ForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_phi3},
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

}  // namespace sluice::detail
