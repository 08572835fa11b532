// Writes a split, and the schedule that runs it, as settings of another trainer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "sluice/partition.h"
#include "sluice/schedule.h"

namespace sluice {

// References must outlive the object.
struct PeerLayout {
  const ModelSpec& model;
  const Partition& partition;
  const Schedule* schedule = nullptr;  // null: unknown
  // Used without `schedule`. None: 1F1B, or Interleaved1F1B if ranks have several stages.
  std::optional<ScheduleName> schedule_name = {};
  std::string csv_file = {};  // file with the schedule's rows, or ""
  int microbatch_size = 0;    // 0: unknown
  int tensor_parallel = 1;
  int data_parallel = 1;
};

const std::vector<std::string>& peer_trainers();

// Whether the trainer runs this schedule by its name.
bool runs_by_name(const std::string& trainer, const Schedule& schedule);
// Whether the trainer reads a schedule's CSV.
bool reads_schedule_csv(const std::string& trainer);

// Throws Error(kUsage) for an unknown trainer, and for a split or schedule that the trainer cannot
// run.
std::string peer_layout_text(const std::string& trainer, const PeerLayout& layout);
// The text is "config". Also has the module lists, layout or cuts, and the schedule's CSV.
Json peer_layout_json(const std::string& trainer, const PeerLayout& layout);

}  // namespace sluice
