#include "report/candidates_output.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "report/program_output.h"

namespace sluice {
namespace {

bool is_planned(const ScheduleCandidate& candidate) { return candidate.peak_bytes > 0; }

// Adds the placement, which a name such as "searched" does not include.
std::string title(const ScheduleCandidate& candidate) {
  if (candidate.name != "searched") return candidate.name;
  return candidate.name + (candidate.placement == Placement::kV ? ", V" : ", loop");
}

std::string stages_text(const ScheduleCandidate& candidate) {
  return title(candidate) + " (" + counted(candidate.stages_per_rank, "stage") + " a rank)";
}

template <typename Remark>
std::string table_text(const std::vector<ScheduleCandidate>& candidates, const TimeBasis& basis,
                       int width, const Remark& remark) {
  TextTable table({{"schedule"},
                   {"stages a rank", Align::kRight},
                   {"step", Align::kRight},
                   {"bubble", Align::kRight},
                   {"peak", Align::kRight},
                   {""}});
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const ScheduleCandidate& each = candidates[i];
    const bool planned = is_planned(each);
    table.add_row({title(each), std::to_string(each.stages_per_rank),
                   planned ? time_text(basis, each.step) : "",
                   planned ? fixed(100.0 * each.bubble_fraction, 1) + "%" : "",
                   planned ? human_bytes(each.peak_bytes) : "", remark(i)});
  }
  return table.to_string("  ", width);
}

Json candidate_json(const ScheduleCandidate& candidate) {
  const bool planned = is_planned(candidate);
  Json row = {{"name", candidate.name},
              {"stages_per_rank", candidate.stages_per_rank},
              {"placement", candidate.placement == Placement::kV ? "v" : "loop"}};
  row["step"] = planned ? Json(candidate.step) : Json();
  row["bubble_fraction"] = planned ? Json(candidate.bubble_fraction) : Json();
  row["peak_bytes"] = planned ? Json(candidate.peak_bytes) : Json();
  row["ok"] = candidate.refusal.empty();
  row["reason"] = candidate.refusal;
  row["taken"] = candidate.taken;
  return row;
}

std::string verdict(const Comparison& comparison) {
  const ScheduleCandidate& first = comparison.candidates.front();
  if (!first.taken) {
    const auto short_of = [](const ScheduleCandidate& each) { return each.short_of_memory; };
    const std::string limit = human_bytes(comparison.memory_per_rank.value_or(0)) + " a rank";
    if (std::all_of(comparison.candidates.begin(), comparison.candidates.end(), short_of))
      return "none fits into " + limit;
    if (std::any_of(comparison.candidates.begin(), comparison.candidates.end(), short_of))
      return "none can run: those that can be planned need more than " + limit;
    return "none can run";
  }
  std::string fastest = "fastest: " + stages_text(first);
  if (!comparison.asked) return fastest;
  const ScheduleCandidate& asked = comparison.candidates[*comparison.asked];
  if (asked.taken) return fastest + ", as configured";
  if (!asked.refusal.empty()) return fastest + "; the configured schedule cannot be used";
  return fastest + ", a step takes " + comparison_text(first.step, asked.step) + " with " +
         stages_text(asked) + ", as configured";
}

}  // namespace

TimeBasis basis_of(const Plan& plan) {
  return {.unit = plan.time_unit,
          .measured = plan.time_unit == "s" && !plan.costs.file.empty(),
          .replicated = plan.options.data_parallel.degree > 1};
}

std::string time_text(const TimeBasis& basis, double time) {
  if (basis.unit == "s") return fixed(1000.0 * time, 1) + " ms";
  if (basis.unit.empty()) return shortest(time);
  return fixed(time, 3) + " " + basis.unit;
}

std::string basis_text(const TimeBasis& basis) {
  if (basis.measured) return " (measured)";
  if (basis.unit == "s") return " (counted products of matrices and messages, at the given speed)";
  if (!basis.unit.empty()) return " (counted products of matrices)";
  return std::string(" (F, I, W take 1, B takes 2, ") +
         (basis.replicated ? "transfers and reductions" : "transfers") + " nothing)";
}

std::string candidates_text(const std::vector<ScheduleCandidate>& candidates,
                            const TimeBasis& basis, int width) {
  return table_text(candidates, basis, width, [&](std::size_t i) {
    return candidates[i].taken ? "taken" : candidates[i].refusal;
  });
}

Json candidates_json(const std::vector<ScheduleCandidate>& candidates) {
  Json rows = Json::array();
  for (const ScheduleCandidate& each : candidates) rows.push_back(candidate_json(each));
  return rows;
}

std::string comparison_text(const Comparison& comparison, int width) {
  const std::vector<ScheduleCandidate>& candidates = comparison.candidates;
  std::string text =
      wrapped("schedules of " + comparison.subject + basis_text(comparison.basis), width);
  text += table_text(candidates, comparison.basis, width, [&](std::size_t i) {
    const bool asked = comparison.asked == i;
    if (!candidates[i].refusal.empty())
      return (asked ? "as configured; " : "") + candidates[i].refusal;
    return std::string(candidates[i].taken ? "fastest" : "") +
           (asked ? (candidates[i].taken ? ", as configured" : "as configured") : "");
  });
  text += wrapped(verdict(comparison), width);
  for (const std::string& note : comparison.notes) text += wrapped("note: " + note, width);
  return text;
}

std::string comparison_json(const Comparison& comparison) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < comparison.candidates.size(); ++i) {
    Json row = candidate_json(comparison.candidates[i]);
    row["configured"] = comparison.asked == i;
    rows.push_back(std::move(row));
  }
  Json object;
  object["unit"] = comparison.basis.unit;
  object["memory_per_rank"] = comparison.memory_per_rank;
  object["candidates"] = std::move(rows);
  object["notes"] = comparison.notes;
  return object.dump(2) + "\n";
}

}  // namespace sluice
