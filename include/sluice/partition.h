// Which stage has which layers, and which rank has which stage.
//
// Owns: Partition, the split rules of sluice and of the peers whose users come to it.
// Does not own: the schedule, modules.
// Invariants of a Partition (checked by make_partition):
//  1. Every layer of the model is on exactly one stage, in order: stages are contiguous.
//  2. No stage is empty.
//  3. Every parameter is owned by exactly one stage, or declared in a tie group.
// Thread-safety: values.
#pragma once

#include <string>
#include <vector>

#include "sluice/model_spec.h"
#include "sluice/program.h"
#include "sluice/schedule.h"

namespace sluice {

enum class Remainder { kFirst, kLast, kMiddle };
enum class Rounding { kNone, kUp, kDown };

struct PartitionOptions {
  std::string convention = "sluice";   // docs/partition.md
  int num_ranks = 1;
  std::string schedule = "1F1B";       // single or several stages a rank, placement
  int num_stages = 0;                  // 0: from layers_per_stage, else as the schedule needs
  int stages_per_rank = 0;             // 0: as the schedule needs
  int layers_per_stage = 0;            // 0: not given
  Rounding rounding = Rounding::kNone; // of the number of stages to a multiple of num_ranks
  int first_stage_weight = 0;          // layers that the embedding counts for
  int last_stage_weight = 0;           // layers that norm and head count for
  Remainder remainder = Remainder::kFirst;
  std::vector<std::string> split_points;             // cut before these
  std::vector<std::string> cuts;                     // cut after these
  std::vector<std::vector<std::string>> modules;     // explicit names per stage
  std::vector<int> stage_to_rank;                    // empty: as the schedule places them
};

struct StageContent {
  int stage = 0;
  int rank = 0;
  int first_layer = 0;              // index of the first decoder layer
  int num_layers = 0;               // decoder layers
  std::vector<std::string> modules; // names of the convention, in order
  std::vector<int> layers;          // indices into ModelSpec::layers
  std::int64_t num_parameters = 0;
};

struct Partition {
  int num_ranks = 0;
  int num_stages = 0;
  int stages_per_rank = 0;          // the largest, when ranks differ
  std::vector<int> stage_to_rank;
  std::vector<std::string> split_points;  // first layer of every stage but the first
  std::vector<StageContent> stages;
  std::vector<TieGroup> tie_groups;       // groups whose members are on more than one stage, or layer
};

// Throws Error(kUsage) naming the option, the numbers and the remedy.
Partition make_partition(const ModelSpec& model, const PartitionOptions& options);

}  // namespace sluice
