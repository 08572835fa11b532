// What crosses the borders of stages: values that are read later, and weights used on several
// ranks.
//
// Owns: relaying of live values and detection of shared weights, by names alone.
// Does not own: tensors and layers (layer.h), the reduction of shared gradients (program.h).
// Both follow NeuronX Distributed, where the stages are those of a traced graph.
// Thread-safety: pure functions.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

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

}  // namespace sluice
