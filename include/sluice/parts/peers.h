// The split functions of torchtitan, NeMo AutoModel and NeuronX Distributed, under their names.
//
//   sluice::stage_ids_this_rank(/*pp_rank=*/1, /*pp_size=*/4, /*num_stages=*/8, "v");  // {1, 6}
//   sluice::generate_split_points("1F1B", 2, 8, std::nullopt);  // {"layers.4"}
//
// Counts are at most 1,048,576. Throws Error(kUsage) if the original rejects the input, or loses or
// repeats layers. make_partition() splits models by these rules (docs/partition.md).
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
// With layers_per_stage, returns ceil(num_layers / layers_per_stage) stages. The number must be a
// multiple of pp_size or is rounded to one. Otherwise there is one stage per rank, or two if the
// schedule has several.
VirtualStages calculate_virtual_stages(int num_layers, std::optional<int> layers_per_stage,
                                       int pp_size, bool is_single_stage_schedule,
                                       Rounding round_to_pp_multiple = Rounding::kNone);

struct HfStageOptions {
  bool include_embeddings = true;
  bool include_lm_head = true;
  bool include_rotary_emb = true;              // on every stage
  bool include_multimodal_encoders = true;     // AutoModel's 15 names, on the first stage
  std::vector<std::string> extra_module_fqns;  // on the first stage
  std::string fqn_prefix = "model.";
  std::string lm_head_fqn = "lm_head";
};
// Returns each stage's modules in the order embedding, encoders, extras, layers, norm, head, rotary
// embedding. The first stages take remaining layers.
ModuleNames generate_hf_model_fqn_per_model_part(int num_stages, int num_layers,
                                                 const HfStageOptions& options = {});

// ---- torchtitan ----

// Returns the first layer of every stage but the first. The embedding counts as input_weight
// layers, norm and head as output_weight. The first stages take remaining layers, which
// layers_per_stage forbids.
std::vector<std::string> generate_split_points(std::string_view schedule, int pp_degree,
                                               int num_layers, std::optional<int> layers_per_stage,
                                               int input_weight = 1, int output_weight = 1);
// Returns the stages of one rank. style: "loop", or "v" for exactly two stages per rank.
std::vector<int> stage_ids_this_rank(int pp_rank, int pp_size, int num_stages,
                                     std::string_view style = "loop");

// ---- NeuronX Distributed ----

// Returns the last layer of every partition but the last. The last partitions take remaining
// layers.
std::vector<std::string> create_partitions(int num_partitions,
                                           const std::vector<std::string>& layer_names);

}  // namespace sluice
