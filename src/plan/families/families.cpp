#include "plan/families/families.h"

#include <algorithm>

#include "plan/families/gpt2.h"
#include "plan/families/llama.h"
#include "plan/families/qwen2.h"

namespace sluice::detail {

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {"llama", "LlamaForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_llama},
      {"gpt2",
       "GPT2LMHeadModel",
       "transformer.",
       {".attn.bias", ".attn.masked_bias", ".position_ids"},
       read_gpt2,
       /*conv1d=*/true},
      {"qwen2", "Qwen2ForCausalLM", "model.", {".rotary_emb.inv_freq"}, read_qwen2},
  };
  return table;
}

const Family* find_family(const std::string& name) {
  const auto found = std::find_if(families().begin(), families().end(),
                                  [&](const Family& family) { return family.name == name; });
  return found == families().end() ? nullptr : &*found;
}

}  // namespace sluice::detail
