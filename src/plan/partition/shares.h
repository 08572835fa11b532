#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "sluice/partition.h"
#include "sluice/parts/peers.h"

namespace sluice::detail {

inline constexpr int kMaxCount = 1 << 20;  // of layers, stages or ranks

// Throws Error(kUsage) without a place.
[[noreturn]] void refuse(const std::string& what, const std::string& remedy = {});
// Throws unless min <= value <= kMaxCount.
void require_count(const char* what, std::int64_t value, int min);
void require_layer_each(int num_stages, int num_layers);

// Divides `total` into `parts` numbers. `remainder` selects which get one more: the first, the
// last, or those around the middle, earlier ones first. Precondition: parts >= 1, total >= 0.
std::vector<int> even_shares(int total, int parts, Remainder remainder);

// Returns decoder layers per stage. Embedding and head count as layers of the given weights. Throws
// for too many stages, or if a weight exceeds the smallest stage.
std::vector<int> weighted_shares(int num_layers, int num_stages, int input_weight,
                                 int output_weight, Remainder remainder);

// Returns each stage's first layer: {0, 3, 7} for {3, 4, 4}.
std::vector<int> first_layers(const std::vector<int>& shares);

enum class StagesNeed { kOne, kSeveral, kAny };
StagesNeed stages_need(const ScheduleInfo* schedule);
bool fits(StagesNeed need, int stages_per_rank);
std::string need_text(StagesNeed need);
// `noun` names the layers in messages.
VirtualStages virtual_stages(int num_layers, int layers_per_stage, int pp_size, StagesNeed need,
                             Rounding rounding, const char* noun = "layer");

// Returns the schedule's default, or 1 without a schedule.
int natural_stages_per_rank(const ScheduleInfo* schedule);

}  // namespace sluice::detail
