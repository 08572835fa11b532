// Functions of the peers that only tests call, which hold the rules of src/plan/partition, and
// what they stand on, against the answers of their sources (tests/reference). The others are in
// sluice/parts/peers.h. What a peer refuses is refused: Error(kUsage).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/parts/peers.h"

namespace sluice::testing {

// ---- torchtitan ----
// The first generation (October 2024): no weights, extra layers on the middle stages.
std::vector<std::string> generate_split_points_2024(std::string_view schedule, int pp_degree,
                                                    int num_layers);
// The current generation: the number of stages, then module names.
int get_pipeline_metadata(std::string_view schedule, int pp_degree, int num_layers,
                          std::optional<int> layers_per_stage, int first_stage_less_layers = 1,
                          int last_stage_less_layers = 1);
ModuleNames generate_llm_fqn_per_model_part(int num_stages, int num_layers, int input_weight = 1,
                                            int output_weight = 1,
                                            const std::string& head = "lm_head");

struct ManualStage {
  int stage = 0;
  int num_stages = 0;
  std::vector<std::string> modules;
};
// [rank][chunk]: tok_embeddings on the first stage, norm and output on the last, the layers of
// [split, next split) between. Empty split_points are generated.
std::vector<std::vector<ManualStage>> pipeline_llama_manual_split(
    int num_layers, int pp_size, std::string_view schedule,
    const std::vector<std::string>& split_points, std::optional<int> layers_per_stage);

// ---- microbatches ----
struct RowRange {
  std::int64_t start = 0;
  std::int64_t size = 0;
};
// Rows of every microbatch as torch.tensor_split cuts them: the first batch % n have one row more.
// Throws Error(kUsage) with fewer rows than microbatches, which torch answers with fewer chunks.
std::vector<RowRange> split_batch_into_microbatches(std::int64_t batch,
                                                    std::int64_t num_microbatches);

// ---- NeuronX Distributed, where the stages are those of a traced graph ----

struct StageValues {
  std::vector<std::string> consumes;
  std::vector<std::string> produces;
};
struct StageTraffic {
  std::vector<std::string> recv;  // from the stage before, in the order of the message
  std::vector<std::string> send;  // to the stage after; on the last stage the outputs
};
// Model inputs are present on every stage and never cross. Any other value passes through every
// stage between the one that produces it and the last that consumes it. Throws Error(kUsage) naming
// the value and the stage: consumed but not produced before, produced twice, or sent and never
// received.
std::vector<StageTraffic> live_values_between_stages(const std::vector<StageValues>& stages,
                                                     const std::vector<std::string>& model_inputs);

struct SharedWeights {
  // Weights used on several ranks: {name of the first use on the rank, rank} per rank.
  std::vector<std::vector<std::pair<std::string, int>>> groups;
  // [rank][weight]: not the first use, so its gradient norm is counted elsewhere. A later stage of
  // the same rank that uses the weight again clears the flag, as the source does.
  std::vector<std::map<std::string, bool>> shared_on_rank;
};
// stages[s]: {parameter name, identity of its weight}; stage s is on rank s mod pp_size.
SharedWeights analyze_shared_weights_across_stages(
    int pp_size, const std::vector<std::vector<std::pair<std::string, std::string>>>& stages);

}  // namespace sluice::testing
