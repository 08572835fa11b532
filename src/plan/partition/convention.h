// A convention is a framework's rules for cutting models into stages.
#pragma once

#include <string>
#include <vector>

#include "sluice/partition.h"

namespace sluice::detail {

// A model's layers, with the convention's module names.
struct LayerNames {
  int num_layers = 0;
  int first_decoder = 0;
  int num_decoders = 0;
  std::vector<std::vector<std::string>> names;  // [layer]
  std::vector<std::string> stateless;           // modules without parameters; allowed on any stage
  std::vector<std::string> extras;  // modules that the model does not list; on one stage

  // Returns a decoder layer's index among all layers.
  int position(int decoder) const { return first_decoder + decoder; }
  int decoders_before(int position) const;
};
LayerNames hf_names(const ModelSpec& model);
LayerNames titan_names(const ModelSpec& model, const std::string& head);

// A cut model. `starts` holds each stage's first layer (starts[0] = 0).
struct Split {
  std::vector<int> starts;
  ModuleNames modules;
  std::vector<std::string> split_points;
};
// Precondition: starts ascends strictly from 0.
Split split_at(const LayerNames& layers, std::vector<int> starts);
// `shares` are decoder layers per stage. The embedding goes to the first stage, norm and head to
// the last.
Split split_by_shares(const LayerNames& layers, const std::vector<int>& shares);

// These cut at named layers, and throw for names that are unknown, unsorted or repeated.
// split_as_listed() also throws for layers without a stage and stages without a layer.
Split split_before(const LayerNames& layers, const std::vector<std::string>& points,
                   bool decoders_only);
Split split_after(const LayerNames& layers, const std::vector<std::string>& cuts);
Split split_as_listed(const LayerNames& layers, const ModuleNames& modules);

// Returns the number of stages, by the first option given of num_stages, layers_per_stage (which
// divides num_layers + weight), stages_per_rank and stage_to_rank, or else by the schedule.
int counted_stages(const PartitionOptions& options, const ScheduleInfo* schedule, int num_layers,
                   int weight = 0);
int required_ranks(const PartitionOptions& options);

struct ConventionRules {
  Convention kind = Convention::kSluice;
  std::string name;
  bool split_points = false, cuts = false, modules = false;
  bool layers_per_stage = false, rounding = false, weights = false, remainder = false;
  // Whether embeddings, lm_head, rotary, multimodal, extra_modules, prefix and lm_head_name are
  // supported.
  bool ends = false;
  bool layer_each = false;  // no more stages than decoder layers, although a stage may have none
  // Whether names override layers_per_stage. If not, giving both is an error.
  bool names_win = false;
  int default_weight = 0;  // layers for which the embedding and the head count
  LayerNames (*names)(const ModelSpec&, const PartitionOptions&) = nullptr;
  Split (*split)(const ModelSpec&, const PartitionOptions&, const ScheduleInfo*) = nullptr;
};
const std::vector<ConventionRules>& conventions();

const ConventionRules& find_convention(const ConventionName& name);
EndWeights end_weights(const ConventionRules& convention, const PartitionOptions& options);
bool has_names(const PartitionOptions& options);  // true if split points, cuts or modules are given
// Removes options that layer names override. Returns a note for each.
std::vector<std::string> drop_overruled(const ConventionRules& convention,
                                        PartitionOptions& options);
// Throws Error(kUsage) for names of another convention.
void require_own_names(const ConventionRules& convention, const ModelSpec& model,
                       const PartitionOptions& options);
// Throws Error(kUsage) for counts out of range, and for options that exclude each other or are not
// supported.
void check_options(const ConventionRules& convention, const PartitionOptions& options,
                   bool by_costs);
void require_num_stages(const PartitionOptions& options, int num_stages);
// Throws Error(kUsage) if names make more stages than `layer_each` allows.
void require_layers(const ConventionRules& convention, const PartitionOptions& options,
                    int num_stages, int num_decoders);
// Throws Error(kUsage) if a V schedule does not get two stages per rank, or if stage_to_rank does
// not fit or leaves a rank without stages.
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
