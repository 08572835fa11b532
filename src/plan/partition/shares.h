// Numbers of layers of each stage, by counts alone. Internal to the rules.
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

// Error(kUsage) without a place: the caller's options are the place.
[[noreturn]] void refuse(const std::string& what, const std::string& remedy = {});
// Throws unless min <= value <= kMaxCount.
void require_count(const char* what, std::int64_t value, int min);
// Throws when there are more stages than layers.
void require_layer_each(int num_stages, int num_layers);

// total = sum; every part has total / parts, and total % parts of them one more:
//   kFirst, kLast: the first, the last; kMiddle: those around the middle, the earlier half first.
// Precondition: parts >= 1, total >= 0.
std::vector<int> even_shares(int total, int parts, Remainder remainder);

// Decoder layers per stage where embedding and head count for so many layers of their stage.
// Throws when there are more stages than layers and weights, or a weight exceeds the smallest
// share.
std::vector<int> weighted_shares(int num_layers, int num_stages, int input_weight,
                                 int output_weight, Remainder remainder);

// Sums before each stage: {3, 4, 4} -> {0, 3, 7}.
std::vector<int> first_layers(const std::vector<int>& shares);

// Stages a rank that a schedule takes; any without a schedule.
enum class StagesNeed { kOne, kSeveral, kAny };
StagesNeed stages_need(const ScheduleInfo* schedule);
bool fits(StagesNeed need, int stages_per_rank);
std::string need_text(StagesNeed need);  // "the schedule runs exactly 1 stage a rank"
// calculate_virtual_stages() for layers per stage. noun: what is counted.
VirtualStages virtual_stages(int num_layers, int layers_per_stage, int pp_size, StagesNeed need,
                             Rounding rounding, const char* noun = "layer");

// Stages a rank that the schedule runs without being asked; 1 when the schedule is free.
int natural_stages_per_rank(const ScheduleInfo* schedule);

}  // namespace sluice::detail
