// Which stage has which layers, and which rank has which stage.
//
// Owns: Partition, sluice's own split rule, the choice among the conventions of docs/partition.md.
// Does not own: the peers' rules as functions (partition_rules.h), the schedule, modules.
// Invariants of a Partition (checked by make_partition):
//  1. Every layer of the model is on exactly one stage, in order: stages are contiguous.
//  2. No stage is empty: it has at least one layer, if only the embedding, or norm and head.
//  3. Every parameter is owned by exactly one stage, or declared in a tie group.
//  4. Every rank has a stage.
// Thread-safety: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/model_spec.h"
#include "sluice/parts/partition_rules.h"
#include "sluice/parts/stage_map.h"
#include "sluice/program.h"
#include "sluice/schedule.h"

namespace sluice {

enum class Remainder { kFirst, kLast, kMiddle };

// Layers that the ends of a model count for: the embedding on the first stage, norm and head on the
// last.
struct EndWeights {
  int first = 0, last = 0;
};

// An option that the convention has no meaning for is an error, not ignored.
struct PartitionOptions {
  std::string convention = "sluice";      // partition_conventions()
  int num_ranks = 0;                      // 0: as many as stages
  std::string schedule = "1F1B";          // single or several stages a rank, placement; "": free
  int num_stages = 0;                     // 0: from layers_per_stage, else as the schedule needs
  int stages_per_rank = 0;                // 0: as the schedule needs
  int layers_per_stage = 0;               // 0: not given
  Rounding rounding = Rounding::kNone;    // of the number of stages to a multiple of num_ranks
  std::optional<int> first_stage_weight;  // layers that the embedding counts for; else
  std::optional<int> last_stage_weight;   // default_end_weight(); norm and head
  std::optional<Remainder> remainder;     // where extra layers go; kFirst
  std::vector<std::string> split_points;  // cut before these
  std::vector<std::string> cuts;          // cut after these
  ModuleNames modules;                    // explicit names per stage
  // automodel: what the ends hold. Names that are not given are the model's.
  bool embeddings = true, lm_head = true, rotary = true, multimodal = false;
  std::vector<std::string> extra_modules;
  std::optional<std::string> prefix, lm_head_name;
  // "auto": as the schedule places them; "loop", "v". A list of ranks, one a stage, wins.
  std::string placement = "auto";
  std::vector<int> stage_to_rank;
};

struct StageContent {
  int stage = 0;
  int rank = 0;
  int first_layer = 0;               // index of the first decoder layer
  int num_layers = 0;                // decoder layers
  std::vector<std::string> modules;  // names of the convention, in order
  std::vector<int> layers;           // indices into ModelSpec::layers
  std::int64_t num_parameters = 0;   // uses of tied parameters counted on every stage
};

struct Partition {
  std::string convention;
  StageMap stage_map;
  std::vector<std::string> split_points;  // first layer of every stage but the first
  std::vector<StageContent> stages;
  std::vector<TieGroup> tie_groups;   // tied parameters, also where all uses are on one stage
  std::optional<EndWeights> weights;  // with which layers were counted; none: names cut, or the
                                      // convention has no weights
  std::vector<std::string> notes;     // options that gave way to others

  int num_ranks() const { return stage_map.num_ranks(); }
  int num_stages() const { return stage_map.num_stages(); }
  int stages_per_rank() const { return stage_map.stages_per_rank(); }
};

const std::vector<std::string>& partition_conventions();
// What either end counts for where it is not said: 1 in torchtitan's conventions, 0 in others.
int default_end_weight(const std::string& convention);

// Throws Error(kUsage) naming the option, the numbers and the remedy.
Partition make_partition(const ModelSpec& model, const PartitionOptions& options);

// AutoModel's check of a model before it splits it: throws Error(kUsage) for a head tied to
// `embed_tokens`. It does not look at models of another structure, which its split then refuses.
void validate_hf_model_for_pipeline_support(const ModelSpec& model);

// Names of the parameters of a stage, in the order of the model.
std::vector<std::string> parameter_names(const ModelSpec& model, const StageContent& stage);

// Sizes of one microbatch at the borders of a stage: of the first value that its first layer reads,
// and of the first that its last layer writes. In a decoder: ids [microbatch, sequence] into the
// first stage, [microbatch, sequence, hidden] between stages, [microbatch, sequence, vocabulary]
// out of the head. Throws Error(kUsage) for a model that does not know its values.
struct StageShape {
  std::vector<std::int64_t> input, output;
};
std::vector<StageShape> stage_shapes(const ModelSpec& model, const Partition& partition,
                                     std::int64_t microbatch_size, std::int64_t seq_len);

}  // namespace sluice
