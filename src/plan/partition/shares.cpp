#include "plan/partition/shares.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/format.h"
#include "sluice/error.h"
#include "sluice/parts/peers.h"

namespace sluice::detail {

void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .remedy = remedy});
}

void require_count(const char* what, std::int64_t value, int min) {
  if (value >= min && value <= kMaxCount) return;
  refuse(formatted("{} is {}", what, value),
         formatted("give a number from {} to {}", min, kMaxCount));
}

void require_layer_each(int num_stages, int num_layers) {
  if (num_stages <= num_layers) return;
  refuse(counted(num_layers, "layer") + " cannot fill " + counted(num_stages, "stage"),
         (num_layers > 0 ? "use at most " + counted(num_layers, "stage") + ", or "
                         : std::string("use ")) +
             "`model` of at least " + counted(num_stages, "layer"));
}

std::vector<int> even_shares(int total, int parts, Remainder remainder) {
  std::vector<int> shares(static_cast<std::size_t>(parts), total / parts);
  const int extra = total % parts;
  int first = 0;
  if (remainder == Remainder::kLast) first = parts - extra;
  if (remainder == Remainder::kMiddle) first = parts / 2 - extra / 2;
  std::for_each_n(shares.begin() + first, extra, [](int& share) { ++share; });
  return shares;
}

std::vector<int> weighted_shares(int num_layers, int num_stages, int input_weight,
                                 int output_weight, Remainder remainder) {
  require_count("the number of layers", num_layers, 0);
  require_count("the number of stages", num_stages, 1);
  require_count("the weight of the first stage", input_weight, 0);
  require_count("the weight of the last stage", output_weight, 0);
  if (num_stages == 1) return {num_layers};
  const int effective = num_layers + input_weight + output_weight;
  if (num_stages > effective) {
    refuse(formatted("{} for {} with weights {} and {} would leave stages empty",
                     counted(num_stages, "stage"), counted(num_layers, "layer"), input_weight,
                     output_weight),
           "use at most " + counted(std::max(effective, 1), "stage"));
  }
  const int smallest = effective / num_stages;
  for (const auto& [weight, end] : {std::pair{input_weight, "first"}, {output_weight, "last"}}) {
    if (weight > smallest) {
      refuse(formatted("the weight of the {} stage, {}, exceeds the {} of a stage ({} layers and "
                       "weights {} and {} on {} stages)",
                       end, weight, counted(smallest, "layer"), num_layers, input_weight,
                       output_weight, num_stages),
             "use fewer stages or a weight of at most " + std::to_string(smallest));
    }
  }
  std::vector<int> shares = even_shares(effective, num_stages, remainder);
  shares.front() -= input_weight;
  shares.back() -= output_weight;
  return shares;
}

std::vector<int> first_layers(const std::vector<int>& shares) {
  std::vector<int> starts;
  starts.reserve(shares.size());
  int layer = 0;
  for (const int share : shares) {
    starts.push_back(layer);
    layer += share;
  }
  return starts;
}

StagesNeed stages_need(const ScheduleInfo* schedule) {
  if (!schedule) return StagesNeed::kAny;
  return schedule->single_stage ? StagesNeed::kOne : StagesNeed::kSeveral;
}

bool fits(StagesNeed need, int stages_per_rank) {
  switch (need) {
    case StagesNeed::kOne:
      return stages_per_rank == 1;
    case StagesNeed::kSeveral:
      return stages_per_rank >= 2;
    case StagesNeed::kAny:
      return stages_per_rank >= 1;
  }
  return false;
}

std::string need_text(StagesNeed need) {
  switch (need) {
    case StagesNeed::kOne:
      return "the schedule runs exactly 1 stage a rank";
    case StagesNeed::kSeveral:
      return "the schedule runs at least 2 stages a rank";
    case StagesNeed::kAny:
      return "every rank needs a stage";
  }
  return {};
}

int natural_stages_per_rank(const ScheduleInfo* schedule) {
  return !schedule || schedule->single_stage ? 1 : 2;
}

namespace {

int ceil_div(int a, int b) { return a / b + (a % b != 0); }

std::string fitting_layers_per_stage(int num_layers, int pp_size, StagesNeed need, int asked) {
  int best = 0;
  for (int candidate = 1; candidate <= num_layers; ++candidate) {
    const int stages = ceil_div(num_layers, candidate);
    if (stages % pp_size != 0 || !fits(need, stages / pp_size)) continue;
    if (best == 0 || std::abs(candidate - asked) < std::abs(best - asked)) best = candidate;
  }
  return best ? "give `layers_per_stage` " + std::to_string(best) : "use another number of ranks";
}

}  // namespace

VirtualStages virtual_stages(int num_layers, int layers_per_stage, int pp_size, StagesNeed need,
                             Rounding rounding, const char* noun) {
  require_count("the number of ranks", pp_size, 1);
  require_count("the number of layers", num_layers, 0);
  require_count("`layers_per_stage`", layers_per_stage, 1);
  int stages = ceil_div(num_layers, layers_per_stage);
  const std::string made =
      formatted("{} with `layers_per_stage` {} make {}", counted(num_layers, noun),
                layers_per_stage, counted(stages, "stage"));
  const auto remedy = [&] {
    return fitting_layers_per_stage(num_layers, pp_size, need, layers_per_stage);
  };
  if (const int over = stages % pp_size; over != 0) {
    if (rounding == Rounding::kNone) {
      refuse(made + ", not a multiple of " + counted(pp_size, "rank"),
             "round up or down, or " + remedy());
    }
    stages += rounding == Rounding::kUp ? pp_size - over : -over;
  }
  if (!fits(need, stages / pp_size)) {
    refuse(formatted("{}, {} on each of {}{}, but {}", made, stages / pp_size,
                     counted(pp_size, "rank"), rounding == Rounding::kNone ? "" : " after rounding",
                     need_text(need)),
           remedy());
  }
  return {stages, stages / pp_size};
}

}  // namespace sluice::detail
