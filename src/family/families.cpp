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
Family decoder(std::string name) {
  const auto model = [](const ConfigReader& config, const Precision& precision) {
    return decoder_model(read(config), precision);
  };
  return {std::move(name), model, read};
}

template <MoeConfig (*read)(const ConfigReader&)>
Family with_experts(std::string name) {
  const auto model = [](const ConfigReader& config, const Precision& precision) {
    return moe_model(read(config), precision);
  };
  const auto of_decoder = [](const ConfigReader& config) { return read(config).decoder; };
  return {std::move(name), model, of_decoder};
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      decoder<read_llama_config>("llama"),
      {"gpt2", read_gpt2,
       /*decoder=*/nullptr,
       /*conv1d=*/true},
      decoder<read_qwen2_config>("qwen2"),
      decoder<read_mistral_config>("mistral"),
      decoder<read_qwen3_config>("qwen3"),
      decoder<read_gemma2_config>("gemma2"),
      decoder<read_gemma3_config>("gemma3_text"),
      decoder<read_olmo2_config>("olmo2"),
      decoder<read_granite_config>("granite"),
      decoder<read_smollm3_config>("smollm3"),
      with_experts<read_mixtral_config>("mixtral"),
      with_experts<read_qwen3_moe_config>("qwen3_moe"),
      with_experts<read_olmoe_config>("olmoe"),
      decoder<read_phi3_config>("phi3"),
      {"gpt_neox", read_gpt_neox},
      decoder<read_starcoder2_config>("starcoder2"),
  };
  return table;
}

const Family* find_family(const std::string& name) {
  const auto found = std::find_if(families().begin(), families().end(),
                                  [&](const Family& family) { return family.name == name; });
  return found == families().end() ? nullptr : &*found;
}

}  // namespace sluice::detail
