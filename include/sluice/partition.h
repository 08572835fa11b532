// Splits a model's layers into stages, and places each stage on a rank (docs/partition.md).
//
//     sluice::Partition split = sluice::make_partition(spec, {.num_ranks = 4});
//
// Stages are contiguous and not empty. A stage may hold only the embedding, or only norm and head.
// Every rank has a stage. A parameter on several stages is in a tie group.
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

using ModuleNames = std::vector<std::vector<std::string>>;

// Rounds the number of stages to a multiple of the ranks.
enum class Rounding { kNone, kUp, kDown };

enum class Remainder { kFirst, kLast, kMiddle };

// Number of layers that the embedding (`first`) and the norm with the head (`last`) count as.
struct EndWeights {
  int first = 0, last = 0;
};

// The project whose rules and names a split follows.
enum class Convention {
  kSluice,
  kTorchtitan,
  kTorchtitan2024,
  kTorchtitanCurrent,
  kAutomodel,
  kNeuronx,
};
std::string_view name_of(Convention convention);
Convention parse_kind(std::string_view name, Convention);
using ConventionName = ByName<Convention>;

// Options that contradict each other or the convention are refused.
struct PartitionOptions {
  ConventionName convention = Convention::kSluice;
  // 0: one per stage.
  int num_ranks = 0;
  // Determines how many stages a rank runs. None: any number, with Placement::kLoop.
  std::optional<ScheduleName> schedule = ScheduleKind::k1F1B;

  // ---- by counts: at most one of the first three ----
  int num_stages = 0;
  // 0: as the schedule needs, 1 or 2.
  int stages_per_rank = 0;
  // 0: spread evenly.
  int layers_per_stage = 0;
  // Rounds the number of stages that layers_per_stage yields. kNone refuses numbers that need
  // rounding.
  Rounding rounding = Rounding::kNone;
  // EndWeights. None: default_end_weight().
  std::optional<int> first_stage_weight = {}, last_stage_weight = {};
  // Stages that get an extra layer in an uneven split. None: the first.
  std::optional<Remainder> remainder = {};

  // ---- instead of counts, by the convention's names: at most one of these ----
  std::vector<std::string> split_points = {};  // cuts before these layers
  std::vector<std::string> cuts = {};          // cuts after these layers
  ModuleNames modules = {};                    // all modules of every stage

  // ---- convention automodel: contents of the first and last stage ----
  bool embeddings = true, lm_head = true, rotary = true, multimodal = false;
  std::vector<std::string> extra_modules = {};                // on the first stage
  std::optional<std::string> prefix = {}, lm_head_name = {};  // none: the model's

  // ---- placement; none: the schedule's ----
  std::optional<Placement> placement = {};
  // The rank of every stage. Overrides placement unless empty.
  std::vector<int> stage_to_rank = {};
};

struct StageContent {
  int stage = 0;
  int rank = 0;
  int first_layer = 0;
  int num_layers = 0;
  std::vector<std::string> modules;  // module names as in the convention
  std::vector<int> layers;           // indices into ModelSpec::layers
  std::int64_t num_parameters = 0;   // tied parameters count on every stage
  // The gradients that the stage's backward computes, as far as known.
  StageBackward backward = StageBackward::kFull;
  std::vector<int> recomputed;  // layers that the backward recomputes
};

struct Partition {
  std::string convention;
  StageMap stage_map;
  std::vector<std::string> split_points;  // first layer of each stage but the first
  std::vector<StageContent> stages;
  std::vector<TieGroup> tie_groups;  // including those on one stage
  // None if the split is by names or the convention has no weights.
  std::optional<EndWeights> weights;
  std::vector<std::string> notes;  // overridden options

  int num_ranks() const { return stage_map.num_ranks(); }
  int num_stages() const { return stage_map.num_stages(); }
  int stages_per_rank() const { return stage_map.stages_per_rank(); }
};

const std::vector<std::string>& partition_conventions();
// Returns the default of EndWeights: 1 in torchtitan's conventions, otherwise 0.
int default_end_weight(const ConventionName& convention);

// Throws Error(kUsage) for options that contradict each other, the convention or the model.
Partition make_partition(const ModelSpec& model, const PartitionOptions& options);

std::vector<std::string> parameter_names(const ModelSpec& model, const StageContent& stage);

// Sizes and dtypes of the first value that a stage reads, and of the first that it writes, for one
// microbatch. Throws Error(kUsage) if the model does not know its values.
struct StageShape {
  std::vector<std::int64_t> input, output;
  std::string input_dtype, output_dtype;
};
std::vector<StageShape> stage_shapes(const ModelSpec& model, const Partition& partition,
                                     std::int64_t microbatch_size, std::int64_t seq_len);

}  // namespace sluice
