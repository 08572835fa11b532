#include "sluice/schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "plan/schedules/builders.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Without this limit, a typo could take minutes and fill the memory.
constexpr std::int64_t kMaxForwards = std::int64_t{1} << 22;

// Published schedules that sluice does not support, with the closest one that it does.
struct OtherSchedule {
  std::string_view spelling;  // lower case, without a leading "schedule", '-', '_' and spaces
  std::string_view name, what, instead;
};
constexpr std::array<OtherSchedule, 13> kOtherSchedules = {{
    {"dualpipe", "DualPipe", "it keeps two copies of the weights", "DualPipeV"},
    {"chimera", "Chimera", "it keeps two copies of the weights", "DualPipeV"},
    {"hanayo", "Hanayo", "its stages run through the ranks in waves", "ZBVZeroBubble"},
    {"zbh2", "ZB-H2", "it keeps more activations to leave no bubble", "ZBVZeroBubble"},
    {"zb2p", "ZB-2p", "an optimizer finds its order", "ZBVZeroBubble"},
    {"vhalf", "V-Half", "it keeps half of the activations", "ZBVZeroBubble"},
    {"vmin", "V-Min", "it keeps a third of the activations", "ZBVZeroBubble"},
    {"vshape", "V-shape", "it stands for several schedules", "ZBVZeroBubble"},
    {"pipedream", "PipeDream", "it keeps several versions of the weights", "1F1B"},
    {"pipedream2bw", "PipeDream-2BW", "it keeps two versions of the weights", "1F1B"},
    {"seq1f1b", "Seq1F1B", "it cuts sequences into pieces", "1F1B"},
    {"terapipe", "TeraPipe", "it cuts sequences into pieces", "1F1B"},
    {"eager1f1b", "Eager-1F1B", "it runs more forwards ahead", "1F1B"},
}};

// torch accepts these abstract classes as schedules and fails later.
constexpr std::array<std::string_view, 4> kAbstractNames = {
    "pipelineschedulesingle", "pipelineschedulemulti", "_pipelinescheduleruntime",
    "_scheduleforwardonly"};

void require_positive(int count, const char* what) {
  if (count < 1) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the {} is {}", what, count), .remedy = "give at least 1"});
  }
}

[[noreturn]] void refuse_stages_per_rank(const ScheduleInfo& info, int got) {
  const bool one = info.single_stage;
  throw Error(ErrorKind::kUsage, {.what = formatted("{} runs exactly {} per rank, got {}",
                                                    info.name, one ? "1 stage" : "2 stages", got),
                                  .remedy = std::string(one ? "give 1 stage" : "give 2 stages") +
                                            " per rank, or use Interleaved1F1B"});
}

int resolve_stages_per_rank(const ScheduleInfo& info, int requested) {
  if (requested < 0) require_positive(requested, "number of stages per rank");
  const int natural = info.single_stage ? 1 : 2;
  if (requested == 0) return natural;
  const bool fixed = info.single_stage || info.placement == Placement::kV;
  if (fixed && requested != natural) refuse_stages_per_rank(info, requested);
  return requested;
}

void require_bounded(const ScheduleShape& shape) {
  if (shape.num_ranks > detail::kMostRanks) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("{} exceed the {} that a schedule can have",
                                   counted(shape.num_ranks, "rank"), detail::kMostRanks),
                 .remedy = "give at most " + std::to_string(detail::kMostRanks) + " ranks"});
  }
  const std::int64_t stages = std::int64_t{shape.num_ranks} * shape.stages_per_rank;
  if (stages > kMaxForwards || stages * shape.num_microbatches > kMaxForwards) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("{} x {} x {} is more than {} forwards in one step",
                                   counted(shape.num_ranks, "rank"),
                                   counted(shape.stages_per_rank, "stage"),
                                   counted(shape.num_microbatches, "microbatch"), kMaxForwards),
                 .remedy = "use fewer microbatches"});
  }
}

}  // namespace

std::vector<int> parse_stage_to_rank(std::string_view text, int num_ranks, int num_stages) {
  const std::string word = to_lower(text);
  if (word == "loop") return make_stage_map(Placement::kLoop, num_ranks, num_stages).ranks();
  if (word == "v") return make_stage_map(Placement::kV, num_ranks, num_stages).ranks();
  std::vector<int> stage_to_rank;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    int rank = -1;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error != std::errc() || rank < 0 || (next != end && *next != ',')) {
      throw Error(ErrorKind::kUsage,
                  {.what = "'" + std::string(text) + "' is not a stage-to-rank map",
                   .remedy = "write loop, v, or one rank per stage, as 0,1,1,0"});
    }
    stage_to_rank.push_back(rank);
    if (next == end) return stage_to_rank;
    at = next + 1;
  }
}

const std::vector<ScheduleInfo>& schedule_table() {
  static const std::vector<ScheduleInfo> table = {
      {ScheduleKind::kGPipe,
       "GPipe",
       {"schedulegpipe", "fthenb", "f-then-b", "fill_drain", "fill-drain"},
       "arXiv:1811.06965",
       true,
       Placement::kLoop,
       detail::build_gpipe},
      {ScheduleKind::k1F1B,
       "1F1B",
       {"schedule1f1b", "train1f1bschedule", "trainschedule", "pipedream_flush", "pipedream-flush",
        "oneforwardonebackwardschedule", "forward_backward_pipelining_without_interleaving"},
       "arXiv:2006.09503",
       true,
       Placement::kLoop,
       detail::build_1f1b},
      {ScheduleKind::kInterleaved1F1B,
       "Interleaved1F1B",
       {"scheduleinterleaved1f1b", "interleaved_1f1b", "interleaved-1f1b", "1f1b_interleaved",
        "dfs", "depth_first", "vpp", "traininterleavedschedule", "interleavedschedule",
        "forward_backward_pipelining_with_interleaving"},
       "arXiv:2104.04473",
       false,
       Placement::kLoop,
       detail::build_interleaved_1f1b},
      {ScheduleKind::kLoopedBFS,
       "LoopedBFS",
       {"scheduleloopedbfs", "looped_bfs", "looped-bfs", "bfs", "breadth_first",
        "interleavefthenb"},
       "arXiv:2211.05953",
       false,
       Placement::kLoop,
       detail::build_looped_bfs},
      {ScheduleKind::kInterleavedZeroBubble,
       "InterleavedZeroBubble",
       {"scheduleinterleavedzerobubble", "interleaved_zero_bubble", "interleaved-zero-bubble",
        "zero_bubble", "zero-bubble", "zerobubble", "zb1p", "zbh1", "zb-h1", "zb_h1"},
       "arXiv:2401.10241",
       false,
       Placement::kLoop,
       detail::build_interleaved_zero_bubble},
      {ScheduleKind::kZBVZeroBubble,
       "ZBVZeroBubble",
       {"schedulezbvzerobubble", "zbv_zero_bubble", "zbv", "zb-v", "zb_v", "v_schedule",
        "zerobubblevpipescheduler"},
       "arXiv:2401.10241, section 6",
       false,
       Placement::kV,
       detail::build_zbv_zero_bubble},
      {ScheduleKind::kDualPipeV,
       "DualPipeV",
       {"scheduledualpipev", "dualpipe_v", "dualpipe-v", "dual_pipe_v"},
       "arXiv:2412.19437",
       false,
       Placement::kV,
       detail::build_dual_pipe_v},
  };
  return table;
}

StageMap make_stage_map(const ScheduleInfo& schedule, int num_ranks, int num_stages) {
  StageMap map = make_stage_map(schedule.placement, num_ranks, num_stages);
  const int stages_per_rank = num_stages / num_ranks;
  if (schedule.placement == Placement::kV && stages_per_rank != 2) {
    refuse_stages_per_rank(schedule, stages_per_rank);
  }
  return map;
}

const ScheduleInfo& find_schedule(const ScheduleName& name) {
  return schedule_table().at(static_cast<std::size_t>(name.kind()));
}

std::string_view name_of(ScheduleKind kind) {
  return schedule_table().at(static_cast<std::size_t>(kind)).name;
}

ScheduleKind parse_kind(std::string_view name, ScheduleKind) {
  const std::string wanted = to_lower(name);
  std::vector<std::string> spellings, names;
  for (const ScheduleInfo& info : schedule_table()) {
    names.push_back(info.name);
    spellings.push_back(info.name);
    spellings.insert(spellings.end(), info.aliases.begin(), info.aliases.end());
    if (wanted == to_lower(info.name) ||
        std::find(info.aliases.begin(), info.aliases.end(), wanted) != info.aliases.end()) {
      return info.kind;
    }
  }
  if (std::find(kAbstractNames.begin(), kAbstractNames.end(), wanted) != kAbstractNames.end()) {
    throw Error(
        ErrorKind::kUsage,
        {.what = "'" + std::string(name) + "' is a base class of torch's schedules, not a schedule",
         .remedy = "one of: " + join(names, ", ")});
  }
  std::string bare = wanted;
  std::erase_if(bare, [](char letter) { return letter == '-' || letter == '_' || letter == ' '; });
  if (bare.starts_with("schedule")) bare.erase(0, std::string_view("schedule").size());
  for (const OtherSchedule& other : kOtherSchedules) {
    if (bare != other.spelling) continue;
    throw Error(ErrorKind::kUsage,
                {.what = formatted("{} is a schedule that sluice does not make: {}", other.name,
                                   other.what),
                 .remedy = formatted("use '{}', or read an order with --csv", other.instead)});
  }
  const std::string near = nearest_name(name, spellings);
  throw Error(ErrorKind::kUsage,
              {.what = "unknown schedule '" + std::string(name) + "'",
               .remedy = near.empty() ? "one of: " + join(names, ", ")
                                      : "did you mean '" + find_schedule(near).name + "'?"});
}

Schedule make_schedule(const ScheduleName& name, const ScheduleShape& shape) {
  const ScheduleInfo& info = find_schedule(name);
  require_positive(shape.num_ranks, "number of ranks");
  require_positive(shape.num_microbatches, "number of microbatches");
  ScheduleShape resolved = shape;
  resolved.stages_per_rank = resolve_stages_per_rank(info, shape.stages_per_rank);
  require_bounded(resolved);
  return info.build(resolved);
}

namespace detail {

Schedule start(std::string name, Placement placement, const ScheduleShape& shape) {
  Schedule schedule;
  schedule.name = std::move(name);
  schedule.num_microbatches = shape.num_microbatches;
  schedule.stage_map =
      make_stage_map(placement, shape.num_ranks, shape.num_ranks * shape.stages_per_rank);
  schedule.rows.resize(static_cast<std::size_t>(shape.num_ranks));
  return schedule;
}

}  // namespace detail
}  // namespace sluice
