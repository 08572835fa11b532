// Makes schedules, the order of forwards and backwards on every rank, without LibTorch.
//
//     auto schedule = sluice::make_schedule("zbv", {.num_ranks = 4, .num_microbatches = 8});
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/layout.h"

namespace sluice {

// An enumerator that may be given by name: `options.schedule = "zbv"`. The enum needs name_of(Kind)
// and parse_kind(name, Kind), whose second argument only selects the overload.
template <typename Kind>
class ByName {
 public:
  ByName(Kind kind) : kind_(kind), text_(name_of(kind)) {}
  // Throws Error(kUsage) for an unknown name, with the nearest one.
  template <typename Text>
  requires std::convertible_to<const Text&, std::string_view> ByName(const Text& name)
      : kind_(parse_kind(std::string_view(name), Kind())), text_(name) {}

  Kind kind() const { return kind_; }
  const std::string& text() const { return text_; }

  friend bool operator==(const ByName& a, const ByName& b) { return a.kind_ == b.kind_; }

 private:
  Kind kind_;
  std::string text_;
};

// Returns the rank of every stage from "loop", "v" or a list ("0,1,1,0"). A list ignores num_ranks
// and num_stages. Throws Error(kUsage) for another text or unsuitable numbers.
std::vector<int> parse_stage_to_rank(std::string_view text, int num_ranks, int num_stages);

struct Schedule {
  std::string name;  // canonical name, or the file's
  int num_microbatches = 0;
  // Stages that no row of a schedule file computes are kNowhere, which verify() refuses.
  StageMap stage_map;
  std::vector<std::vector<Action>> rows;  // [rank][slot]; kIdle: empty slot

  int num_ranks() const { return stage_map.num_ranks(); }
  int num_stages() const { return stage_map.num_stages(); }
};

enum class ScheduleKind {
  kGPipe,
  k1F1B,
  kInterleaved1F1B,
  kLoopedBFS,
  kInterleavedZeroBubble,
  kZBVZeroBubble,
  kDualPipeV,
};
std::string_view name_of(ScheduleKind kind);
// Accepts names and aliases in any case. Throws Error(kUsage) for an unknown name, with the nearest
// one.
ScheduleKind parse_kind(std::string_view name, ScheduleKind);
using ScheduleName = ByName<ScheduleKind>;

struct ScheduleShape {
  int num_ranks = 1;
  int stages_per_rank = 0;  // 0: the schedule's default, 1 or 2
  int num_microbatches = 1;
};

struct ScheduleInfo {
  ScheduleKind kind = ScheduleKind::k1F1B;
  std::string name;
  std::vector<std::string> aliases;  // lower case
  std::string source;
  bool single_stage = false;
  Placement placement = Placement::kLoop;
  Schedule (*build)(const ScheduleShape&) = nullptr;  // stages_per_rank must be set
};

const std::vector<ScheduleInfo>& schedule_table();

// Throws Error(kUsage) unless num_stages is a multiple of num_ranks, and 2 * num_ranks for V
// schedules.
StageMap make_stage_map(const ScheduleInfo& schedule, int num_ranks, int num_stages);

const ScheduleInfo& find_schedule(const ScheduleName& name);

// Throws Error(kUsage) for numbers of stages or microbatches that the schedule cannot run.
Schedule make_schedule(const ScheduleName& name, const ScheduleShape& shape);

// Returns a schedule of forwards only, for LowerOptions::forward_only.
Schedule make_forward_schedule(const StageMap& stage_map, int num_microbatches);

// Reads torch's CSV (`compute_only` or `compute_comms`): one row per rank; an empty cell is an idle
// slot. By default, the first row that computes a stage gives its rank. Ranks in `stage_to_rank`
// that the file lacks get empty rows. Throws Error(kInput) with 1-based "file:row:column".
Schedule parse_schedule_csv(std::string_view text, std::string_view file_name,
                            const std::vector<int>& stage_to_rank = {});
Schedule read_schedule_csv(const std::string& path, const std::vector<int>& stage_to_rank = {});
// Writes the same bytes as torch: CR LF line ends, and `""` for a row with one idle slot.
std::string to_csv(const std::vector<std::vector<Action>>& rows);

}  // namespace sluice
