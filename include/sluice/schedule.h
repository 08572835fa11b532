// A schedule: the action of every rank in every slot. Pure values, no torch.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/layout.h"

namespace sluice {

// An enumerator that may also be given by name: `options.schedule = "zbv"`. For an enum with two
// functions beside it:
//   std::string_view name_of(Kind);            its name
//   Kind kind_of_name(std::string_view, Kind); by any of its names; the second argument selects the
//   enum
template <typename Kind>
class ByName {
 public:
  ByName(Kind kind) : kind_(kind), text_(name_of(kind)) {}
  // Throws what kind_of_name() throws: Error(kUsage) with the nearest name.
  template <typename Text>
  requires std::convertible_to<const Text&, std::string_view> ByName(const Text& name)
      : kind_(kind_of_name(std::string_view(name), Kind())), text_(name) {}

  Kind kind() const { return kind_; }
  const std::string& text() const { return text_; }  // the name as given

  friend bool operator==(const ByName& a, const ByName& b) { return a.kind_ == b.kind_; }

 private:
  Kind kind_;
  std::string text_;
};

// The ranks by stage of a text: "loop", "v", or ranks separated by commas, one for each stage
// ("0,1,1,0"). The two words use num_ranks and num_stages as make_stage_map() does; a list does
// not, and only its form is checked. Throws Error(kUsage).
std::vector<int> parse_stage_to_rank(std::string_view text, int num_ranks, int num_stages);

struct Schedule {
  std::string name;  // canonical name, or the file's
  int num_microbatches = 0;
  // A stage is kNowhere only from a file: no row names it, or the given map lacks it; such a
  // schedule can be printed, and verify() refuses it.
  StageMap stage_map;
  std::vector<std::vector<Action>> rows;  // [rank][slot]; kIdle: the slot is empty

  int num_ranks() const { return stage_map.num_ranks(); }
  int num_stages() const { return stage_map.num_stages(); }
};

// In the order of schedule_table().
enum class ScheduleKind {
  kGPipe,
  k1F1B,
  kInterleaved1F1B,
  kLoopedBFS,
  kInterleavedZeroBubble,
  kZBVZeroBubble,
  kDualPipeV,
};
// The canonical name: "1F1B".
std::string_view name_of(ScheduleKind kind);
// The schedule of this name or alias, in any case. Throws Error(kUsage) with the nearest name.
ScheduleKind kind_of_name(std::string_view name, ScheduleKind);
// A schedule as enumerator or name: ScheduleKind::kZBVZeroBubble, "ZBVZeroBubble" and "zbv" are the
// same.
using ScheduleName = ByName<ScheduleKind>;

// The request to a builder.
struct ScheduleShape {
  int num_ranks = 1;
  int stages_per_rank = 0;  // 0: the schedule's default (1, or 2 for multi-stage schedules)
  int num_microbatches = 1;
};

// One row of the literal table of schedules.
struct ScheduleInfo {
  ScheduleKind kind = ScheduleKind::k1F1B;
  std::string name;                  // canonical: "1F1B"
  std::vector<std::string> aliases;  // other accepted names, lower case
  std::string source;                // paper or specification
  bool single_stage = false;         // exactly one stage a rank
  Placement placement = Placement::kLoop;
  Schedule (*build)(const ScheduleShape&) = nullptr;  // stages_per_rank resolved, >= 1
};

const std::vector<ScheduleInfo>& schedule_table();

// The ranks of the stages under a schedule. Throws Error(kUsage) as the other make_stage_map(), and
// for a V schedule without exactly 2 stages a rank.
StageMap make_stage_map(const ScheduleInfo& schedule, int num_ranks, int num_stages);

const ScheduleInfo& find_schedule(const ScheduleName& name);

// Builds a schedule. Throws Error(kUsage) for counts below 1, for stages a rank that the schedule
// refuses (single-stage: exactly 1; V schedules: exactly 2), and for microbatches that it refuses.
Schedule make_schedule(const ScheduleName& name, const ScheduleShape& shape);

// The forwards of any number of microbatches, for an evaluation without backward. Lower it with
// LowerOptions::forward_only.
Schedule make_forward_schedule(const StageMap& stage_map, int num_microbatches);

// torch's CSV: one row a rank, cells in text form, empty cell = idle slot. Reads both
// `compute_only` and `compute_comms`. Stage count and placement are inferred (a stage is on the
// first row that computes it) unless `stage_to_rank` is given; then ranks of the map beyond the
// file's rows get empty rows. Throws Error(kInput) "file:row:column" (of the cell, from 1) with the
// reason. Proves nothing: see verify().
Schedule parse_schedule_csv(std::string_view text, std::string_view file_name,
                            const std::vector<int>& stage_to_rank = {});
Schedule read_schedule_csv(const std::string& path, const std::vector<int>& stage_to_rank = {});
// The file that torch writes, byte for byte: lines end in CR LF, and a row of one idle slot is
// `""`.
std::string to_csv(const std::vector<std::vector<Action>>& rows);

}  // namespace sluice
