#include "job/post_mortem.h"

#include <utility>

namespace sluice {

void PostMortem::add(int rank, int instruction, std::string flight_record) {
  const std::lock_guard lock(mutex_);
  ranks_[rank] = {instruction, std::move(flight_record)};
}

std::string PostMortem::text(const Program& program, const Failure& failure,
                             const GridOptions& options) const {
  const std::lock_guard lock(mutex_);
  const auto culprit = ranks_.find(failure.rank);
  if (culprit == ranks_.end() || culprit->second.instruction < 0) return {};
  const int index = culprit->second.instruction;
  const Action& action =
      program.ranks.at(static_cast<std::size_t>(failure.rank)).at(static_cast<std::size_t>(index));
  VerifyReport report;
  report.violations.push_back({failure.rank, index, to_text(action), "failed here"});
  std::string text = draw_violations(program, report, options);
  for (const auto& [rank, entry] : ranks_) {
    text += "\nrank " + std::to_string(rank) + ", last instructions:\n" + entry.flight_record;
  }
  return text;
}

}  // namespace sluice
