// AutoModel does not count embedding, norm and head as layers. The first stages take the remainder:
// 30 layers on 8 stages make 4 4 4 4 4 4 3 3.
#include "plan/peers/automodel.h"

#include "base/format.h"
#include "plan/partition/shares.h"
#include "sluice/error.h"
#include "sluice/parts/peers.h"

namespace sluice {

VirtualStages calculate_virtual_stages(int num_layers, std::optional<int> layers_per_stage,
                                       int pp_size, bool is_single_stage_schedule,
                                       Rounding round_to_pp_multiple) {
  using detail::StagesNeed;
  const StagesNeed need = is_single_stage_schedule ? StagesNeed::kOne : StagesNeed::kSeveral;
  if (layers_per_stage) {
    return detail::virtual_stages(num_layers, *layers_per_stage, pp_size, need,
                                  round_to_pp_multiple);
  }
  detail::require_count("the number of ranks", pp_size, 1);
  const int stages_per_rank = is_single_stage_schedule ? 1 : 2;
  return {pp_size * stages_per_rank, stages_per_rank};
}

const std::vector<std::string>& multimodal_suffixes() {
  static const std::vector<std::string> suffixes = {"vision_tower",          "visual",
                                                    "vision_model",          "image_encoder",
                                                    "vision_encoder",        "embed_vision",
                                                    "audio_tower",           "audio_encoder",
                                                    "audio_model",           "mm_projector",
                                                    "multi_modal_projector", "multimodal_projector",
                                                    "vision_projector",      "vit_large_projector",
                                                    "audio_projector"};
  return suffixes;
}

ModuleNames generate_hf_model_fqn_per_model_part(int num_stages, int num_layers,
                                                 const HfStageOptions& options) {
  detail::require_count("the number of stages", num_stages, 1);
  detail::require_count("the number of layers", num_layers, 0);
  detail::require_layer_each(num_stages, num_layers);
  const std::vector<int> shares = detail::even_shares(num_layers, num_stages, Remainder::kFirst);
  ModuleNames stages(shares.size());
  int layer = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::vector<std::string>& names = stages[s];
    if (s == 0) {
      if (options.include_embeddings) names.push_back(options.fqn_prefix + "embed_tokens");
      if (options.include_multimodal_encoders) {
        for (const std::string& suffix : multimodal_suffixes()) {
          names.push_back(options.fqn_prefix + suffix);
        }
      }
      names.insert(names.end(), options.extra_module_fqns.begin(), options.extra_module_fqns.end());
    }
    for (int i = 0; i < shares[s]; ++i) {
      names.push_back(formatted("{}layers.{}", options.fqn_prefix, layer++));
    }
    if (s + 1 == stages.size()) {
      names.push_back(options.fqn_prefix + "norm");
      if (options.include_lm_head) names.push_back(options.lm_head_fqn);
    }
    if (options.include_rotary_emb) names.push_back(options.fqn_prefix + "rotary_emb");
  }
  return stages;
}

}  // namespace sluice
