#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "report/draw_cells.h"
#include "sluice/simulate.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxDrawn = 16;  // further violations are only counted

// Consecutive instructions of a rank that fit on one line.
class RowWindow {
 public:
  RowWindow(const std::vector<Action>& row, std::size_t first, std::size_t columns)
      : row_(&row), first_(first), end_(first) {
    std::size_t used = kLead;
    while (end_ < row.size()) {
      const std::size_t width = to_text(row[end_]).size() + 1;
      if (end_ > first && used + width + kLead > columns) break;
      used += width;
      ++end_;
    }
  }

  bool contains(int index) const {
    return index >= static_cast<int>(first_) && index < static_cast<int>(end_);
  }

  std::string draw(const std::set<int>& stages, bool color) const {
    std::string line = first_ > 0 ? "... " : "";
    for (std::size_t i = first_; i < end_; ++i) {
      const Action& action = (*row_)[i];
      const auto chunk = std::distance(stages.begin(), stages.find(action.stage));
      line += detail::colored(to_text(action),
                              detail::color_of(action.kind, static_cast<int>(chunk)), color);
      if (i + 1 < row_->size()) line += ' ';
    }
    return line + (end_ < row_->size() ? "..." : "");
  }

  std::size_t column(int index) const {
    std::size_t column = first_ > 0 ? kLead : 0;
    for (std::size_t i = first_; i < static_cast<std::size_t>(index); ++i) {
      column += to_text((*row_)[i]).size() + 1;
    }
    return column;
  }

 private:
  static constexpr std::size_t kLead = 4;  // length of "... "
  const std::vector<Action>* row_;
  std::size_t first_, end_;
};

class Picture {
 public:
  Picture(const Program& program, const GridOptions& options)
      : program_(program),
        options_(options),
        digits_(std::to_string(program.ranks.empty() ? 0 : program.ranks.size() - 1).size()) {}

  // Draws the rank's first instructions, and those around violations further on.
  void add_rank(std::size_t rank, std::vector<const Violation*> violations) {
    const std::vector<Action>& row = program_.ranks[rank];
    std::stable_sort(violations.begin(), violations.end(),
                     [](const Violation* a, const Violation* b) { return a->index < b->index; });
    std::set<int> stages;
    for (const Action& action : row) stages.insert(action.stage);

    RowWindow window(row, 0, columns());
    add_line(label(rank) + window.draw(stages, options_.color));
    for (const Violation* violation : violations) {
      if (violation->index < 0 || violation->index >= static_cast<int>(row.size())) {
        note(0, formatted("rank {}: {}", rank, violation->reason));
        continue;
      }
      if (!window.contains(violation->index)) {
        window = window_around(row, violation->index);
        add_line(label(rank) + window.draw(stages, options_.color));
      }
      note(window.column(violation->index), "^ '" + violation->action + "': " + violation->reason);
    }
  }

  void add_line(const std::string& line) { text_ += line + "\n"; }
  std::string take() { return std::move(text_); }

 private:
  RowWindow window_around(const std::vector<Action>& row, int index) const {
    constexpr int kContext = 3;
    for (int first = std::max(0, index - kContext); first < index; ++first) {
      RowWindow window(row, static_cast<std::size_t>(first), columns());
      if (window.contains(index)) return window;
    }
    return RowWindow(row, static_cast<std::size_t>(index), columns());
  }
  std::size_t columns() const {
    const std::size_t used = 7 + digits_;
    const auto width = static_cast<std::size_t>(std::max(options_.width, 40));
    return width - used;
  }
  std::string label(std::size_t rank) const {
    std::string number = std::to_string(rank);
    number.insert(0, digits_ - number.size(), ' ');
    return "rank " + number + "  ";
  }
  void note(std::size_t column, const std::string& message) {
    text_ += std::string(7 + digits_ + column, ' ') +
             detail::colored(message, detail::kMark, options_.color) + "\n";
  }

  const Program& program_;
  const GridOptions& options_;
  std::size_t digits_;
  std::string text_;
};

}  // namespace

std::string draw_violations(const Program& program, const VerifyReport& report,
                            const GridOptions& options) {
  std::map<int, std::vector<const Violation*>> by_rank;
  const std::size_t drawn = std::min(report.violations.size(), kMaxDrawn);
  for (std::size_t i = 0; i < drawn; ++i) {
    by_rank[report.violations[i].rank].push_back(&report.violations[i]);
  }

  Picture picture(program, options);
  const int num_ranks = static_cast<int>(program.ranks.size());
  for (int rank = 0; rank < num_ranks; ++rank) {
    picture.add_rank(static_cast<std::size_t>(rank), by_rank[rank]);
  }
  for (const auto& [rank, violations] : by_rank) {
    if (rank >= 0 && rank < num_ranks) continue;
    for (const Violation* violation : violations) picture.add_line(violation->reason);
  }
  if (drawn < report.violations.size()) {
    picture.add_line(formatted("and {} more violations", report.violations.size() - drawn));
  }
  return picture.take();
}

}  // namespace sluice
