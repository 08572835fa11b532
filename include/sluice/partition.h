// A partition: the layers of each stage, and the rank of each stage.
//
// Invariants of a Partition (checked by make_partition):
//  1. Every layer of the model is on exactly one stage, in order: stages are contiguous.
//  2. No stage is empty: it has at least one layer, which may be only the embedding, or norm and
//     head.
//  3. Every parameter is owned by exactly one stage, or declared in a tie group.
//  4. Every rank has a stage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/model_spec.h"
#include "sluice/parts/layout.h"
#include "sluice/program.h"
#include "sluice/schedule.h"

namespace sluice {

using ModuleNames = std::vector<std::vector<std::string>>;  // [stage][module]

enum class Rounding { kNone, kUp, kDown };  // of the stages to a multiple of the ranks

enum class Remainder { kFirst, kLast, kMiddle };

// The numbers of layers that the ends of a model count as: the embedding on the first stage, norm
// and head on the last.
struct EndWeights {
  int first = 0, last = 0;
};

// The project whose rules and names a split follows (docs/partition.md), in the order of
// partition_conventions().
enum class Convention {
  kSluice,
  kTorchtitan,
  kTorchtitan2024,
  kTorchtitanCurrent,
  kAutomodel,
  kNeuronx,
};
// The name of a convention, such as "torchtitan-2024".
std::string_view name_of(Convention convention);
// The convention of this name. Throws Error(kUsage) with the nearest name.
Convention kind_of_name(std::string_view name, Convention);
using ConventionName = ByName<Convention>;

// How a model is split. Options that are not given follow from those that are; an option that has
// no meaning in the convention, or contradicts another, is refused and never ignored. Counts are of
// decoder layers, stages or ranks.
struct PartitionOptions {
  // The convention whose rules decide the cuts, and whose names modules have.
  ConventionName convention = Convention::kSluice;

  // Ranks of the pipeline. 0: one a stage.
  int num_ranks = 0;

  // The schedule, which decides how many stages a rank runs and which; refused if it cannot run the
  // stages of the split. None: any number of stages, placed as a loop.
  std::optional<ScheduleName> schedule = ScheduleKind::k1F1B;

  // ---- by counts: at most one of these three ----
  // Stages. 0: from layers_per_stage, else from stages_per_rank.
  int num_stages = 0;
  // Stages of a rank. 0: as the schedule needs: 1, or 2 for schedules of several stages a rank.
  int stages_per_rank = 0;
  // Layers of a stage, from which the number of stages follows. 0: layers are spread evenly.
  int layers_per_stage = 0;

  // With layers_per_stage: rounds the number of stages to a multiple of the ranks; kNone: it must
  // be one.
  Rounding rounding = Rounding::kNone;

  // Layers that the embedding (first) or norm and head (last) count for: a stage with a heavy end
  // gets fewer others. None: default_end_weight(convention).
  std::optional<int> first_stage_weight = {}, last_stage_weight = {};

  // The stages that get one layer more when they cannot be even. None: the first.
  std::optional<Remainder> remainder = {};

  // ---- by names of the convention, instead of counts: at most one of these ----
  std::vector<std::string> split_points = {};  // cut before these layers
  std::vector<std::string> cuts = {};          // cut after these layers
  ModuleNames modules = {};                    // every stage's modules; no layer may be missing

  // ---- convention automodel: what the ends hold ----
  bool embeddings = true, lm_head = true, rotary = true, multimodal = false;
  std::vector<std::string> extra_modules = {};  // modules of the first stage, named as given
  std::optional<std::string> prefix = {}, lm_head_name = {};  // none: those of the model

  // ---- which rank has which stage ----
  // The placement of the stages. None: that of the schedule.
  std::optional<Placement> placement = {};
  // The rank of every stage; wins over placement. Empty: not given.
  std::vector<int> stage_to_rank = {};
};

struct StageContent {
  int stage = 0;
  int rank = 0;
  int first_layer = 0;               // index of the first decoder layer
  int num_layers = 0;                // decoder layers
  std::vector<std::string> modules;  // names of the convention, in order
  std::vector<int> layers;           // indices into ModelSpec::layers
  std::int64_t num_parameters = 0;   // uses of tied parameters counted on every stage
  // The gradients that its backward computes; what is not known to be frozen counts as trained.
  StageBackward backward = StageBackward::kFull;
  std::vector<int> recomputed;  // those of `layers` that run again in the backward
};

struct Partition {
  std::string convention;
  StageMap stage_map;
  std::vector<std::string> split_points;  // first layer of every stage but the first
  std::vector<StageContent> stages;
  std::vector<TieGroup> tie_groups;  // tied parameters, even if all uses are on one stage
  // The weights used in counting layers; none: names cut, or the convention has no weights.
  std::optional<EndWeights> weights;
  std::vector<std::string> notes;  // options that gave way to others

  int num_ranks() const { return stage_map.num_ranks(); }
  int num_stages() const { return stage_map.num_stages(); }
  int stages_per_rank() const { return stage_map.stages_per_rank(); }
};

const std::vector<std::string>& partition_conventions();
// The default weight of either end: 1 in torchtitan's conventions, 0 in others.
int default_end_weight(const ConventionName& convention);

// Splits the model. Throws Error(kUsage) naming the option, the numbers and the remedy.
Partition make_partition(const ModelSpec& model, const PartitionOptions& options);

// Names of the parameters of a stage, in the order of the model.
std::vector<std::string> parameter_names(const ModelSpec& model, const StageContent& stage);

// Sizes of one microbatch at the borders of a stage: the first value that its first layer reads,
// and the first that its last layer writes. In a decoder: ids [microbatch, sequence] into the first
// stage, [microbatch, sequence, hidden] between stages, [microbatch, sequence, vocabulary] out of
// the head. Throws Error(kUsage) for a model that does not know its values.
struct StageShape {
  std::vector<std::int64_t> input, output;
  std::string input_dtype, output_dtype;
};
std::vector<StageShape> stage_shapes(const ModelSpec& model, const Partition& partition,
                                     std::int64_t microbatch_size, std::int64_t seq_len);

}  // namespace sluice
