// Draws a schedule in slots as long as its shortest action. Every action takes at least one slot,
// so the grid is not always to scale.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "base/format.h"
#include "report/draw_cells.h"
#include "sluice/simulate.h"

namespace sluice {
namespace {

struct Cell {
  std::int64_t begin = 0, end = 0;  // in slots
  std::string text;
  std::string_view color;
};
using Row = std::vector<Cell>;

// If the grid is wider than the terminal, only slots [0, head) and [tail, total) are shown.
struct Window {
  std::int64_t head = 0, tail = 0, total = 0;
  bool is_cut() const { return head < tail; }
};

constexpr std::string_view kCut = " ... ";

// True if every rank has the stage of its number. The grid then omits stage numbers.
bool is_stage_the_rank(const Simulation& simulation) {
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    for (const TimedAction& timed : simulation.ranks[rank].actions) {
      if (timed.action.stage != static_cast<int>(rank)) return false;
    }
  }
  return true;
}

std::string cell_text(const Action& action, bool without_stage) {
  std::string text = to_text(action);
  if (without_stage) text.erase(0, text.find_first_not_of("0123456789"));
  return text;
}

double slot_length(const Simulation& simulation) {
  constexpr double kMaxSlotsPerAction = 8;
  double shortest = 0;
  std::size_t most_actions = 1;
  for (const RankTimeline& rank : simulation.ranks) {
    most_actions = std::max(most_actions, rank.actions.size());
    for (const TimedAction& timed : rank.actions) {
      const double duration = timed.end - timed.start;
      if (duration > 0 && (shortest == 0 || duration < shortest)) shortest = duration;
    }
  }
  const double least =
      simulation.makespan / (kMaxSlotsPerAction * static_cast<double>(most_actions));
  const double length = std::max(shortest, least);
  return length > 0 ? length : 1;
}

int chunk_of(const std::set<int>& stages, int stage) {
  return static_cast<int>(std::distance(stages.begin(), stages.find(stage)));
}

std::vector<Row> lay_out(const Simulation& simulation) {
  const bool without_stage = is_stage_the_rank(simulation);
  const double length = slot_length(simulation);
  std::vector<Row> rows;
  for (const RankTimeline& rank : simulation.ranks) {
    std::set<int> stages;
    for (const TimedAction& timed : rank.actions) stages.insert(timed.action.stage);
    Row& row = rows.emplace_back();
    std::int64_t free = 0;
    for (const TimedAction& timed : rank.actions) {
      Cell cell;
      cell.begin = std::max<std::int64_t>(free, std::llround(timed.start / length));
      cell.end = std::max<std::int64_t>(cell.begin + 1, std::llround(timed.end / length));
      cell.text = cell_text(timed.action, without_stage);
      cell.color = detail::color_of(timed.action.kind, chunk_of(stages, timed.action.stage));
      free = cell.end;
      row.push_back(std::move(cell));
    }
  }
  return rows;
}

// Fits the longest text and a gap.
std::int64_t slot_columns(const std::vector<Row>& rows) {
  std::int64_t columns = 2;
  for (const Row& row : rows) {
    for (const Cell& cell : row) {
      const std::int64_t slots = cell.end - cell.begin;
      const auto needed = static_cast<std::int64_t>(cell.text.size()) + 1;
      columns = std::max(columns, (needed + slots - 1) / slots);
    }
  }
  return columns;
}

Window make_window(const std::vector<Row>& rows, std::int64_t columns, std::int64_t available) {
  Window window;
  for (const Row& row : rows) {
    if (!row.empty()) window.total = std::max(window.total, row.back().end);
  }
  if (window.total * columns <= available) {
    window.head = window.tail = window.total;
    return window;
  }
  const std::int64_t shown =
      std::max<std::int64_t>(2, (available - static_cast<std::int64_t>(kCut.size())) / columns);
  window.head = std::min(window.total, (shown + 1) / 2);
  window.tail = std::max(window.head, window.total - shown / 2);
  return window;
}

// An action that starts before slot `begin` is drawn without its text.
std::string draw_slots(const Row& row, std::int64_t begin, std::int64_t end, std::int64_t columns,
                       bool color) {
  std::string line;
  std::int64_t slot = begin;
  const auto idle_until = [&](std::int64_t until) {
    for (; slot < until; ++slot) {
      line += detail::colored(".", detail::kDim, color);
      line.append(static_cast<std::size_t>(columns - 1), ' ');
    }
  };
  for (const Cell& cell : row) {
    if (cell.end <= begin) continue;
    if (cell.begin >= end) break;
    idle_until(std::min(cell.begin, end));
    const std::int64_t last = std::min(cell.end, end);
    const auto room = static_cast<std::size_t>((last - slot) * columns - 1);
    std::string body = cell.begin < begin ? "" : cell.text.substr(0, room);
    body.resize(room, ' ');
    line += detail::colored(body, cell.color, color) + " ";
    slot = last;
  }
  idle_until(end);
  return line;
}

std::string legend(const Simulation& simulation, const GridOptions& options) {
  static constexpr std::pair<ActionKind, std::string_view> kNames[] = {
      {ActionKind::kForward, "F forward"},
      {ActionKind::kBackward, "B backward"},
      {ActionKind::kBackwardInput, "I gradient of the input"},
      {ActionKind::kBackwardWeight, "W gradient of the weights"},
  };
  std::set<ActionKind> present;
  for (const RankTimeline& rank : simulation.ranks) {
    for (const TimedAction& timed : rank.actions) present.insert(timed.action.kind);
  }
  std::string text;
  std::size_t used = 0;
  const auto add = [&](std::string_view name, const std::string& shown) {
    const bool breaks =
        used > 0 && used + 2 + name.size() > static_cast<std::size_t>(options.width);
    text += (breaks ? "\n" : used > 0 ? "  " : "") + shown;
    used = name.size() + (breaks || used == 0 ? 0 : used + 2);
  };
  for (const auto& [kind, name] : kNames) {
    if (!present.contains(kind)) continue;
    add(name, detail::colored(name, detail::color_of(kind, 0), options.color));
  }
  add(". idle", ". idle");
  return text + "\n";
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

std::string draw_grid(const Simulation& simulation, const GridOptions& options) {
  const std::vector<Row> rows = lay_out(simulation);
  const std::size_t digits = std::to_string(rows.empty() ? 0 : rows.size() - 1).size();
  const std::int64_t columns = slot_columns(rows);
  const std::int64_t label = 5 + static_cast<std::int64_t>(digits) + 2;
  const Window window = make_window(rows, columns, options.width - label);

  std::string picture;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    std::string number = std::to_string(rank);
    number.insert(0, digits - number.size(), ' ');
    std::string line = "rank " + number + "  ";
    line += draw_slots(rows[rank], 0, window.head, columns, options.color);
    if (window.is_cut()) {
      line += kCut;
      line += draw_slots(rows[rank], window.tail, window.total, columns, options.color);
    }
    picture += trimmed(std::move(line));
  }
  picture += legend(simulation, options);
  if (window.is_cut()) {
    picture += formatted("slots {} to {} of {} are left out\n", window.head, window.tail - 1,
                         window.total);
  }
  return picture;
}

}  // namespace sluice
