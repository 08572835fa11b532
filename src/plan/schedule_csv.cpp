// Reads and writes torch's schedule CSV (docs/schedules.md). The limits keep memory proportional to
// the file's size.
#include <algorithm>
#include <cstdint>

#include "base/file.h"
#include "base/format.h"
#include "plan/action_kinds.h"
#include "plan/neighbours.h"
#include "sluice/error.h"
#include "sluice/schedule.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxCells = std::size_t{1} << 25;
constexpr int kMaxRanks = 1 << 16;
constexpr int kMaxStages = 1 << 16;
constexpr int kMaxMicrobatches = 1 << 20;
constexpr std::int64_t kForwardsPerAction = 16;
constexpr std::int64_t kFreeForwards = 1 << 16;
constexpr const char* kTooLarge = "is it the right file?";

struct Extent {
  int num_stages = 0;
  int num_microbatches = 0;
  std::int64_t num_actions = 0;
};

class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view file_name) : text_(text), file_(file_name) {}

  std::vector<std::vector<Action>> read_rows() {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
    // Editors add blank lines at the end. Elsewhere, a blank line is a rank without actions.
    const std::size_t last = text_.find_last_not_of(" \t\r\n");
    const std::size_t line_end =
        last == std::string_view::npos ? 0 : text_.find_first_of("\r\n", last);
    text_ = text_.substr(0, line_end);

    std::vector<std::vector<Action>> rows;
    while (!text_.empty()) {
      ++row_;
      if (rows.size() == kMaxRanks)
        fail(formatted("the file has more than {} rows", kMaxRanks), 1, kTooLarge);
      rows.push_back(read_row(take_line()));
    }
    return rows;
  }

  const Extent& extent() const { return extent_; }

 private:
  [[noreturn]] void fail(const std::string& what, std::size_t column,
                         const std::string& remedy = {}) const {
    throw Error(ErrorKind::kInput, {.what = what, .where = place(column), .remedy = remedy});
  }

  std::string place(std::size_t column) const { return formatted("{}:{}:{}", file_, row_, column); }

  std::string_view take_line() {
    const std::size_t end = std::min(text_.find_first_of("\r\n"), text_.size());
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end);
    text_.remove_prefix(text_.starts_with("\r\n") ? 2 : text_.empty() ? 0 : 1);
    return line;
  }

  std::vector<Action> read_row(std::string_view line) {
    std::vector<Action> row;
    if (line.find_first_not_of(" \t") == std::string_view::npos) return row;
    const std::size_t cells =
        1 + static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
    num_cells_ += cells;
    if (num_cells_ > kMaxCells)
      fail(formatted("the file has more than {} cells", kMaxCells), 1, kTooLarge);
    row.reserve(cells);
    for (std::size_t column = 1; column <= cells; ++column) {
      const std::size_t end = line.find(',');
      row.push_back(read_cell(line.substr(0, end), column));
      line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    }
    return row;
  }

  Action read_cell(std::string_view cell, std::size_t column) {
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') {
      cell = cell.substr(1, cell.size() - 2);
    }
    Action action;
    try {
      action = parse_action(cell);
    } catch (const Error& error) {
      throw error.at(place(column));
    }
    if (action.kind == ActionKind::kIdle) return action;
    ++extent_.num_actions;
    cover(std::max(action.stage, action.backward_stage), kMaxStages, "stage", column,
          extent_.num_stages);
    cover(std::max(action.microbatch, action.backward_microbatch), kMaxMicrobatches, "microbatch",
          column, extent_.num_microbatches);
    return action;
  }

  void cover(int number, int limit, const char* what, std::size_t column, int& count) const {
    if (number >= limit) {
      fail(formatted("{} {} is beyond the limit of {}", what, number, limit - 1), column,
           "count from 0");
    }
    count = std::max(count, number + 1);
  }

  std::string_view text_;
  std::string file_;
  std::size_t row_ = 0;
  std::size_t num_cells_ = 0;
  Extent extent_;
};

void require_plausible(const Extent& extent, const std::string& file) {
  if (extent.num_actions == 0) {
    throw Error(ErrorKind::kInput,
                {.what = "the schedule has no action",
                 .where = file,
                 .remedy = "write one row per rank, one cell per slot: 0F0,0B0"});
  }
  const std::int64_t forwards = std::int64_t{extent.num_stages} * extent.num_microbatches;
  if (forwards > std::max(kFreeForwards, kForwardsPerAction * extent.num_actions)) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("only {} actions for {} stages x {} microbatches",
                                   extent.num_actions, extent.num_stages, extent.num_microbatches),
                 .where = file,
                 .remedy = "each stage needs a forward and a backward of every microbatch"});
  }
}

// A stage belongs to the rank that computes it, not to one that only transfers its values.
std::vector<int> infer_stage_to_rank(const std::vector<std::vector<Action>>& rows, int num_stages) {
  std::vector<int> stage_to_rank(static_cast<std::size_t>(num_stages), -1);
  for (const bool computing : {true, false}) {
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      for (const Action& action : rows[rank]) {
        if (is_compute(action.kind) != computing) continue;
        for (const int stage : {action.stage, action.backward_stage}) {
          if (stage >= 0 && stage_to_rank[stage] < 0) stage_to_rank[stage] = static_cast<int>(rank);
        }
      }
    }
  }
  return stage_to_rank;
}

int ranks_of_map(const std::vector<int>& stage_to_rank) {
  const auto [low, high] = std::minmax_element(stage_to_rank.begin(), stage_to_rank.end());
  if (*low < 0 || *high >= kMaxRanks) {
    throw Error(
        ErrorKind::kUsage,
        {.what = "the stage-to-rank map names rank " + std::to_string(*low < 0 ? *low : *high),
         .remedy = "give ranks from 0 to " + std::to_string(kMaxRanks - 1)});
  }
  return *high + 1;
}

}  // namespace

Schedule parse_schedule_csv(std::string_view text, std::string_view file_name,
                            const std::vector<int>& stage_to_rank) {
  const std::string file(file_name);
  CsvReader reader(text, file_name);
  Schedule schedule;
  schedule.name = file;
  schedule.rows = reader.read_rows();
  const Extent extent = reader.extent();
  require_plausible(extent, file);
  schedule.num_microbatches = extent.num_microbatches;
  int num_ranks = static_cast<int>(schedule.rows.size());
  std::vector<int> ranks = stage_to_rank;
  if (ranks.empty()) {
    ranks = infer_stage_to_rank(schedule.rows, extent.num_stages);
  } else {
    num_ranks = std::max(num_ranks, ranks_of_map(ranks));
    ranks.resize(std::max(ranks.size(), static_cast<std::size_t>(extent.num_stages)),
                 StageMap::kNowhere);
    schedule.rows.resize(static_cast<std::size_t>(num_ranks));
  }
  schedule.stage_map = StageMap(num_ranks, std::move(ranks));
  return schedule;
}

Schedule read_schedule_csv(const std::string& path, const std::vector<int>& stage_to_rank) {
  return parse_schedule_csv(read_text_or_pipe(path, kMaxFileBytes, ErrorKind::kInput), path,
                            stage_to_rank);
}

std::string to_csv(const std::vector<std::vector<Action>>& rows) {
  std::string text;
  for (const std::vector<Action>& row : rows) {
    // Without quotes, a row with one idle slot would look like a row without slots.
    if (row.size() == 1 && row.front().kind == ActionKind::kIdle) text += "\"\"";
    for (std::size_t slot = 0; slot < row.size(); ++slot) {
      if (slot > 0) text += ',';
      append_text(row[slot], text);
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace sluice
