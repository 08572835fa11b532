// A convention is a framework's set of rules for cutting models into stages.
#pragma once

#include <string>
#include <vector>

#include "sluice/partition.h"

namespace sluice::detail {

// A model's layers by position, with the convention's module names.
struct LayerNames {
  int num_layers = 0;
  // Position of the first decoder layer.
  int first_decoder = 0;
  int num_decoders = 0;
  std::vector<std::vector<std::string>> names;  // by position
  std::vector<std::string> stateless;           // no parameters; allowed on any stage
  std::vector<std::string> extras;              // not listed by the model; on one stage

  // For k = num_decoders, the position after the last decoder layer.
  int position(int decoder) const { return first_decoder + decoder; }
  int decoders_before(int position) const;
};
// Names of the Hugging Face checkpoint.
LayerNames hf_names(const ModelSpec& model);
LayerNames titan_names(const ModelSpec& model, const std::string& head);

// `starts` holds each stage's first position (starts[0] = 0). The split points use the convention's
// names.
struct Split {
  std::vector<int> starts;
  ModuleNames modules;
  std::vector<std::string> split_points;
};
// Precondition: starts ascends strictly from 0.
Split split_at(const LayerNames& layers, std::vector<int> starts);
// Assigns the embedding to the first stage, and norm and head to the last.
Split split_by_shares(const LayerNames& layers, const std::vector<int>& shares);

// Throw for names that are unknown, unsorted or repeated. split_as_listed() also throws for layers
// without a stage and stages without a layer.
Split split_before(const LayerNames& layers, const std::vector<std::string>& points,
                   bool decoders_only);
Split split_after(const LayerNames& layers, const std::vector<std::string>& cuts);
Split split_as_listed(const LayerNames& layers, const ModuleNames& modules);

// Uses the first given option of num_stages, layers_per_stage, stages_per_rank and stage_to_rank.
// Without any, returns what the schedule needs. layers_per_stage divides num_layers + weight.
int counted_stages(const PartitionOptions& options, const ScheduleInfo* schedule, int num_layers,
                   int weight = 0);
int required_ranks(const PartitionOptions& options);

struct ConventionRules {
  Convention kind = Convention::kSluice;
  std::string name;
  bool split_points = false, cuts = false, modules = false;
  bool layers_per_stage = false, rounding = false, weights = false, remainder = false;
  // Supports embeddings, lm_head, rotary, multimodal, extra_modules, prefix and lm_head_name.
  bool ends = false;
  bool layer_each = false;  // at most as many stages as decoder layers
  // Names override layers_per_stage. Otherwise giving both is an error.
  bool names_win = false;
  int default_weight = 0;  // weight of the embedding and of the head
  LayerNames (*names)(const ModelSpec&, const PartitionOptions&) = nullptr;
  Split (*split)(const ModelSpec&, const PartitionOptions&, const ScheduleInfo*) = nullptr;
};
const std::vector<ConventionRules>& conventions();

const ConventionRules& find_convention(const ConventionName& name);
EndWeights end_weights(const ConventionRules& convention, const PartitionOptions& options);
bool has_names(const PartitionOptions& options);  // split points, cuts or modules
// Removes options that names override. Returns a note for each.
std::vector<std::string> drop_overruled(const ConventionRules& convention,
                                        PartitionOptions& options);
// Throws Error(kUsage) for names of another convention.
void require_own_names(const ConventionRules& convention, const ModelSpec& model,
                       const PartitionOptions& options);
// Throws Error(kUsage) for counts out of range and for options that exclude each other or are not
// supported.
void check_options(const ConventionRules& convention, const PartitionOptions& options,
                   bool by_costs);
void require_num_stages(const PartitionOptions& options, int num_stages);
// Throws Error(kUsage) if names make more stages than `layer_each` allows.
void require_layers(const ConventionRules& convention, const PartitionOptions& options,
                    int num_stages, int num_decoders);
// Throws Error(kUsage) if a V schedule does not get two stages per rank, or if the map does not fit
// or leaves a rank empty.
StageMap place_stages(const PartitionOptions& options, const ConventionRules& convention,
                      const ScheduleInfo* schedule, int num_ranks, int num_stages);

LayerNames automodel_names(const ModelSpec& model, const PartitionOptions& options);
Split sluice_split(const ModelSpec&, const PartitionOptions&, const ScheduleInfo*);
Split torchtitan_split(const ModelSpec&, const PartitionOptions&, const ScheduleInfo*);
Split torchtitan_2024_split(const ModelSpec&, const PartitionOptions&, const ScheduleInfo*);
Split torchtitan_current_split(const ModelSpec&, const PartitionOptions&, const ScheduleInfo*);
Split automodel_split(const ModelSpec&, const PartitionOptions&, const ScheduleInfo*);
Split neuronx_split(const ModelSpec&, const PartitionOptions&, const ScheduleInfo*);

}  // namespace sluice::detail
