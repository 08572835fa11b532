// The split rules of torchtitan, NeMo AutoModel and NeuronX Distributed, under the names that their
// users know. docs/partition.md has a table of their answers.
//
// Owns: the number of stages, the layers and module names of each, cuts, stages of a rank.
// Does not own: parameters, which make_partition() (partition.h) distributes by these rules.
// Counts are decoder layers, stages or ranks, at most kMaxCount. What a peer refuses is refused;
// where a peer accepts input that loses or repeats layers, this refuses it and says so.
// Every function throws Error(kUsage) naming the numbers and what would do.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/partition.h"

namespace sluice {

inline constexpr int kMaxCount = 1 << 20;

// ---- NeMo AutoModel ----

struct VirtualStages {
  int num_stages = 0;
  int stages_per_rank = 0;
};
// ceil(num_layers / layers_per_stage) stages, which must divide by pp_size unless rounded; without
// layers_per_stage 1 a rank, or 2 for a schedule of several stages a rank.
VirtualStages calculate_virtual_stages(int num_layers, std::optional<int> layers_per_stage,
                                       int pp_size, bool is_single_stage_schedule,
                                       Rounding round_to_pp_multiple = Rounding::kNone);

// The layers of the first and the last stage beside decoder layers, and their names.
struct HfStageOptions {
  bool include_embeddings = true;
  bool include_lm_head = true;
  bool include_rotary_emb = true;              // on every stage
  bool include_multimodal_encoders = true;     // the 15 names that AutoModel knows, on the first
  std::vector<std::string> extra_module_fqns;  // on the first stage, as they are
  std::string fqn_prefix = "model.";
  std::string lm_head_fqn = "lm_head";
};
// Remainder on the first stages. In a stage: embedding, encoders, extras, layers, norm, head,
// rotary.
ModuleNames generate_hf_model_fqn_per_model_part(int num_stages, int num_layers,
                                                 const HfStageOptions& options = {});
const std::vector<std::string>& multimodal_suffixes();

// AutoModel's check of a model before it splits it: throws Error(kUsage) for a head tied to
// `embed_tokens`. It does not look at models of another structure, which its split then refuses.
void validate_hf_model_for_pipeline_support(const ModelSpec& model);

// ---- torchtitan ----
// Layers count with the weights of embedding and head. layers_per_stage: a rigid fit; without it
// the extra layers go to the first stages. Cut points name the first layer of every stage but the
// first.
std::vector<std::string> generate_split_points(std::string_view schedule, int pp_degree,
                                               int num_layers, std::optional<int> layers_per_stage,
                                               int input_weight = 1, int output_weight = 1);
// The stages of one rank. style: "loop", or "v" with exactly two stages a rank.
std::vector<int> stage_ids_this_rank(int pp_rank, int pp_size, int num_stages,
                                     std::string_view style = "loop");

// ---- NeuronX Distributed ----
// Cuts name the last layer of every partition but the last; the last partitions take the remainder.
std::vector<std::string> create_partitions(int num_partitions,
                                           const std::vector<std::string>& layer_names);

}  // namespace sluice
