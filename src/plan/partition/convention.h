// The questions that a convention answers, and the parts that several answer alike. Internal to
// this folder.
#pragma once

#include <string>
#include <vector>

#include "sluice/partition.h"

namespace sluice::detail {

// The layers of a model by position and by the names of a convention.
struct LayerNames {
  int num_layers = 0;     // number of the model's layers of all kinds
  int first_decoder = 0;  // position of the first decoder layer
  int num_decoders = 0;
  std::vector<std::vector<std::string>> names;  // [position]: module names of the convention
  std::vector<std::string> stateless;           // modules without parameters, on any stage
  std::vector<std::string> extras;  // modules that the model does not list, on one stage

  // Position of decoder layer k; with k = num_decoders that of the layer after the last.
  int position(int decoder) const { return first_decoder + decoder; }
  int decoders_before(int position) const;
};
// Names as the Hugging Face checkpoint has them.
LayerNames hf_names(const ModelSpec& model);
// tok_embeddings, layers.K, norm and `head`.
LayerNames titan_names(const ModelSpec& model, const std::string& head);

// A split: position of the first layer of every stage (starts[0] = 0), what the stages hold, and
// how its users name the cuts.
struct Split {
  std::vector<int> starts;
  ModuleNames modules;
  std::vector<std::string> split_points;
};
// Precondition: starts ascends strictly from 0.
Split split_at(const LayerNames& layers, std::vector<int> starts);
// Decoder layers per stage; the embedding goes to the first, norm and head to the last.
Split split_by_shares(const LayerNames& layers, const std::vector<int>& shares);

// Explicit names. Each throws for unknown, unsorted or repeated names; modules also for layers that
// are on no stage and stages without a layer.
Split split_before(const LayerNames& layers, const std::vector<std::string>& points,
                   bool decoders_only);
Split split_after(const LayerNames& layers, const std::vector<std::string>& cuts);
Split split_as_listed(const LayerNames& layers, const ModuleNames& modules);

// Number of stages: num_stages, stages_per_rank, layers_per_stage of so many layers (weight of them
// no decoder layers), else the size of a given map, else what the schedule needs.
int counted_stages(const PartitionOptions& options, const ScheduleInfo* schedule, int num_layers,
                   int weight = 0);
// Ranks that the counts of stages refer to. Throws when they are not given.
int required_ranks(const PartitionOptions& options);

// One row of the table of conventions: the options that it knows, its names and its answer.
struct ConventionRules {
  Convention kind = Convention::kSluice;
  std::string name;
  bool split_points = false, cuts = false, modules = false;
  bool layers_per_stage = false, rounding = false, weights = false, remainder = false;
  // embeddings, lm_head, rotary, multimodal, extra_modules, prefix, lm_head_name
  bool ends = false;
  bool layer_each = false;  // at most as many stages as decoder layers, also where names cut
  bool names_win = false;   // over layers_per_stage, which others refuse beside them
  int default_weight = 0;   // default weight of either end
  LayerNames (*names)(const ModelSpec&, const PartitionOptions&) = nullptr;
  Split (*split)(const ModelSpec&, const PartitionOptions&, const ScheduleInfo*) = nullptr;
};
const std::vector<ConventionRules>& conventions();

const ConventionRules& find_convention(const ConventionName& name);
// Weights of the ends that are given, else those of the convention.
EndWeights end_weights(const ConventionRules& convention, const PartitionOptions& options);
bool has_names(const PartitionOptions& options);  // split points, cuts or modules
// Takes out what the names win over. Returns a note for each.
std::vector<std::string> drop_overruled(const ConventionRules& convention,
                                        PartitionOptions& options);
// Throws Error(kUsage) for names of another convention, with how to ask for that.
void require_own_names(const ConventionRules& convention, const ModelSpec& model,
                       const PartitionOptions& options);
// Throws Error(kUsage) for counts out of range, options that exclude each other, and options that
// the convention, or a split by costs, has no meaning for.
void check_options(const ConventionRules& convention, const PartitionOptions& options,
                   bool by_costs);
// Throws Error(kUsage) when names make another number of stages than the counts ask for.
void require_num_stages(const PartitionOptions& options, int num_stages);
// Throws Error(kUsage) when names make more stages than a convention of layer_each takes.
void require_layers(const ConventionRules& convention, const PartitionOptions& options,
                    int num_stages, int num_decoders);
// Throws Error(kUsage): a V schedule with other than two stages a rank, a map that
// does not fit or leaves a rank without a stage.
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
