// NeMo AutoModel's rules, as functions.
//
// Embedding, norm and head do not count as layers; the remainder goes to the first stages; the
// rotary embedding is on every stage:
//   30 layers, 8 stages: 4 4 4 4 4 4 3 3
#include <algorithm>
#include <cstdlib>

#include "plan/peers/shares.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using detail::refuse;

int ceil_div(int a, int b) { return a / b + (a % b != 0); }

// The layers_per_stage nearest to the one asked for that fits, as advice.
std::string fitting_layers_per_stage(int num_layers, int pp_size, detail::StagesNeed need,
                                     int asked) {
  int best = 0;
  for (int candidate = 1; candidate <= num_layers; ++candidate) {
    const int stages = ceil_div(num_layers, candidate);
    if (stages % pp_size != 0 || !detail::fits(need, stages / pp_size)) continue;
    if (best == 0 || std::abs(candidate - asked) < std::abs(best - asked)) best = candidate;
  }
  return best ? "give layers_per_stage " + std::to_string(best) : "use another number of ranks";
}

}  // namespace

namespace detail {

VirtualStages virtual_stages(int num_layers, int layers_per_stage, int pp_size, StagesNeed need,
                             Rounding rounding, const char* noun) {
  require_count("the number of ranks", pp_size, 1);
  require_count("the number of layers", num_layers, 0);
  require_count("layers_per_stage", layers_per_stage, 1);
  int stages = ceil_div(num_layers, layers_per_stage);
  const std::string made = counted(num_layers, noun) + " with layers_per_stage " +
                           std::to_string(layers_per_stage) + " make " + counted(stages, "stage");
  const auto remedy = [&] {
    return fitting_layers_per_stage(num_layers, pp_size, need, layers_per_stage);
  };
  if (const int over = stages % pp_size; over != 0) {
    if (rounding == Rounding::kNone) {
      refuse(made + ", not a multiple of " + counted(pp_size, "rank"),
             "round up or down, or " + remedy());
    }
    stages += rounding == Rounding::kUp ? pp_size - over : -over;
  }
  if (!fits(need, stages / pp_size)) {
    refuse(made + ", " + std::to_string(stages / pp_size) + " on each of " +
               counted(pp_size, "rank") + (rounding == Rounding::kNone ? "" : " after rounding") +
               ", but " + need_text(need),
           remedy());
  }
  return {stages, stages / pp_size};
}

}  // namespace detail

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
      names.push_back(options.fqn_prefix + "layers." + std::to_string(layer++));
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
