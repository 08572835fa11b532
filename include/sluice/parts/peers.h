// Split functions of torchtitan, NeMo AutoModel and NeuronX Distributed, for programs that call
// them by these names. make_partition() (partition.h) applies the same rules to a model.
//
//   sluice::stage_ids_this_rank(/*pp_rank=*/1, /*pp_size=*/4, /*num_stages=*/8, "v");  // {1, 6}
//   sluice::generate_split_points("1F1B", 2, 8, std::nullopt);                         //
//   {"layers.4"}
//
// Counts are decoder layers, stages or ranks, at most 1,048,576. Input that the original refuses is
// refused, and so is input for which the original loses or repeats layers. Every function throws
// Error(kUsage) with the numbers and what to give. docs/partition.md has a table of the answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/partition.h"

namespace sluice {

// ---- NeMo AutoModel ----

struct VirtualStages {
  int num_stages = 0;
  int stages_per_rank = 0;
};
// With layers_per_stage: ceil(num_layers / layers_per_stage) stages, a multiple of pp_size, or
// rounded to one. Without: one stage a rank, or two for a schedule with several stages a rank.
VirtualStages calculate_virtual_stages(int num_layers, std::optional<int> layers_per_stage,
                                       int pp_size, bool is_single_stage_schedule,
                                       Rounding round_to_pp_multiple = Rounding::kNone);

// Modules beside the decoder layers, and their names.
struct HfStageOptions {
  bool include_embeddings = true;
  bool include_lm_head = true;
  bool include_rotary_emb = true;              // on every stage
  bool include_multimodal_encoders = true;     // the 15 names that AutoModel knows, on the first
  std::vector<std::string> extra_module_fqns;  // on the first stage, as they are
  std::string fqn_prefix = "model.";
  std::string lm_head_fqn = "lm_head";
};
// Module names of every stage, in the order embedding, encoders, extras, layers, norm, head, rotary
// embedding. The first stages take the remainder of the layers.
ModuleNames generate_hf_model_fqn_per_model_part(int num_stages, int num_layers,
                                                 const HfStageOptions& options = {});

// ---- torchtitan ----

// The first layer of every stage but the first. The embedding counts as input_weight layers, the
// norm and head as output_weight. With layers_per_stage the layers must fit exactly; without it the
// first stages take the remainder.
std::vector<std::string> generate_split_points(std::string_view schedule, int pp_degree,
                                               int num_layers, std::optional<int> layers_per_stage,
                                               int input_weight = 1, int output_weight = 1);
// The stages of one rank. style: "loop", or "v", which takes exactly two stages a rank.
std::vector<int> stage_ids_this_rank(int pp_rank, int pp_size, int num_stages,
                                     std::string_view style = "loop");

// ---- NeuronX Distributed ----

// The last layer of every partition but the last. The last partitions take the remainder.
std::vector<std::string> create_partitions(int num_partitions,
                                           const std::vector<std::string>& layer_names);

}  // namespace sluice
