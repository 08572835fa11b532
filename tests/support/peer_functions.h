// Functions of peer frameworks that only tests call, to check src/plan/partition against the
// original sources (tests/reference). The others are in sluice/parts/peers.h. Arguments that a peer
// rejects throw Error(kUsage).
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
// The first generation (October 2024): it ignores weights; the middle stages get the extra layers.
std::vector<std::string> generate_split_points_2024(std::string_view schedule, int pp_degree,
                                                    int num_layers);
// The current generation. Returns the number of stages.
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
// [rank][chunk]. The first stage has tok_embeddings, the last has norm and output; each stage has
// the layers of [split, next split). Empty split_points are generated.
std::vector<std::vector<ManualStage>> pipeline_llama_manual_split(
    int num_layers, int pp_size, std::string_view schedule,
    const std::vector<std::string>& split_points, std::optional<int> layers_per_stage);

// ---- microbatches ----
struct RowRange {
  std::int64_t start = 0;
  std::int64_t size = 0;
};
// Cut like torch.tensor_split: the first batch % n microbatches have one row more. Throws
// Error(kUsage) if there are fewer rows than microbatches; torch returns fewer chunks then.
std::vector<RowRange> split_batch_into_microbatches(std::int64_t batch,
                                                    std::int64_t num_microbatches);

// ---- NeuronX Distributed, whose stages come from a traced graph ----

struct StageValues {
  std::vector<std::string> consumes;
  std::vector<std::string> produces;
};
struct StageTraffic {
  std::vector<std::string> recv;  // from the previous stage, in message order
  std::vector<std::string> send;  // to the next stage; on the last stage, the outputs
};
// Model inputs are available on every stage and are never sent. Any other value passes through
// every stage from its producer to its last consumer. Throws Error(kUsage), naming value and stage,
// if a value is consumed before it is produced, produced twice, or sent but never received.
std::vector<StageTraffic> live_values_between_stages(const std::vector<StageValues>& stages,
                                                     const std::vector<std::string>& model_inputs);

struct SharedWeights {
  // Weights used on several ranks, as {name of the first use on the rank, rank} for each rank.
  std::vector<std::vector<std::pair<std::string, int>>> groups;
  // [rank][weight]: whether the weight is not the first use, so that its gradient norm is counted
  // elsewhere. A later stage of the same rank that uses the weight again clears the flag, as in the
  // source.
  std::vector<std::map<std::string, bool>> shared_on_rank;
};
// stages[s] holds {parameter name, identity of its weight}. Stage s is on rank s mod pp_size.
SharedWeights analyze_shared_weights_across_stages(
    int pp_size, const std::vector<std::vector<std::pair<std::string, std::string>>>& stages);

}  // namespace sluice::testing
