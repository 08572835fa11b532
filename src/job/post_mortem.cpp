#include "job/post_mortem.h"

#include <utility>

namespace sluice {

namespace {

std::string draw_failure(const Program& program, int rank, int index, const GridOptions& options) {
  const int row = program.mesh.coordinate(rank, Axis::kPp);
  const Action& action = program.ranks.at(row).at(index);
  VerifyReport report;
  report.violations.push_back({row, index, to_text(action), "failed here"});
  return draw_violations(program, report, options);
}

}  // namespace

void PostMortem::add(int rank, int instruction, std::string flight_record) {
  const std::lock_guard lock(mutex_);
  ranks_[rank] = {instruction, std::move(flight_record)};
}

std::string PostMortem::text(const Program& program, const Failure& failure,
                             const GridOptions& options) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  if (here_.has(failure.rank)) {
    const auto culprit = ranks_.find(failure.rank);
    if (culprit == ranks_.end() || culprit->second.instruction < 0) return {};
    text = draw_failure(program, failure.rank, culprit->second.instruction, options);
  }
  for (const auto& [rank, entry] : ranks_) {
    text += "\nrank " + std::to_string(rank) + ", last instructions:\n" + entry.flight_record;
  }
  return text;
}

}  // namespace sluice
