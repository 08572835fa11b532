#include "report/program_output.h"

#include <utility>

#include "base/format.h"
#include "base/text.h"

namespace sluice {

namespace {

Json violations_json(const std::vector<Violation>& violations) {
  Json array = Json::array();
  for (const Violation& violation : violations) {
    array.push_back({{"rank", violation.rank},
                     {"index", violation.index},
                     {"action", violation.action},
                     {"reason", violation.reason}});
  }
  return array;
}

// Returns "", " for torch over Gloo and NCCL" or " for rendezvous".
std::string subject_text(ProofTransport transport) {
  switch (transport) {
    case ProofTransport::kSluice:
      return {};
    case ProofTransport::kRendezvous:
      return " for rendezvous";
    case ProofTransport::kTorch:
      return " for torch over Gloo and NCCL";
  }
  return {};
}

}  // namespace

Json verify_json(const VerifyReport& report) {
  Json object = {{"ok", report.ok()},
                 {"violations", violations_json(report.violations)},
                 {"required_capacity", report.required_capacity},
                 {"max_in_flight", report.max_in_flight}};
  if (report.verdicts.size() < 2) return object;  // a single verdict equals the whole report
  Json verdicts = Json::object();
  for (const Verdict& verdict : report.verdicts) {
    verdicts[verdict.name] = {{"ok", verdict.ok()},
                              {"violations", violations_json(verdict.violations)}};
  }
  object["verdicts"] = std::move(verdicts);
  return object;
}

Json simulation_json(const Simulation& simulation) {
  return {{"makespan", simulation.makespan},
          {"bubble_fraction", simulation.bubble_fraction},
          {"busy_per_rank", simulation.per_rank(&RankTimeline::busy)},
          {"finish_per_rank", simulation.per_rank(&RankTimeline::finish)},
          {"warmup_per_rank", simulation.per_rank(&RankTimeline::warmup)},
          {"waiting_per_rank", simulation.per_rank(&RankTimeline::waiting)},
          {"drain_per_rank", simulation.per_rank(&RankTimeline::drain)},
          {"peak_live_per_rank", simulation.per_rank(&RankTimeline::peak_live)},
          {"peak_live_until_grad_input_per_rank",
           simulation.per_rank(&RankTimeline::peak_live_until_grad_input)}};
}

Json rows_json(const Program& program, const std::vector<std::vector<Action>>& rows) {
  Json cells = Json::array();
  for (const std::vector<Action>& row : rows) {
    Json& texts = cells.push_back(Json::array());
    for (const Action& action : row) texts.push_back(to_text(action));
  }
  return {{"num_ranks", program.num_ranks()},
          {"num_stages", program.num_stages()},
          {"num_microbatches", program.num_microbatches},
          {"stage_to_rank", program.stage_map.ranks()},
          {"rows", std::move(cells)}};
}

std::string verify_text(const VerifyReport& report, const std::string& place) {
  if (report.ok()) {
    return formatted("ok{}: completes with channels of capacity {}; at most {} in one channel\n",
                     subject_text(report.transport), report.required_capacity,
                     counted(report.max_in_flight, "message"));
  }
  std::string text;
  for (const Violation& violation : report.violations) {
    if (violation.rank >= 0) text += "rank " + std::to_string(violation.rank);
    if (violation.index >= 0) text += formatted(", {} {}", place, violation.index);
    if (!violation.action.empty()) text += " '" + violation.action + "'";
    text += (violation.rank >= 0 ? ": " : "") + violation.reason + "\n";
  }
  text += counted(static_cast<std::int64_t>(report.violations.size()), "violation");
  if (report.verdicts.size() > 1) {
    for (std::size_t i = 0; i < report.verdicts.size(); ++i) {
      const Verdict& verdict = report.verdicts[i];
      text += (i ? ", " : "; ") + verdict.name + (verdict.ok() ? ": ok" : ": refused");
    }
  }
  return text + "\n";
}

std::string simulation_text(const Simulation& simulation) {
  TextTable table({{"rank", Align::kRight},
                   {"busy", Align::kRight},
                   {"warm-up", Align::kRight},
                   {"waiting", Align::kRight},
                   {"drain", Align::kRight},
                   {"finish", Align::kRight},
                   {"live", Align::kRight},
                   {"until I", Align::kRight}});
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const RankTimeline& of = simulation.ranks[rank];
    table.add_row({std::to_string(rank), shortest(of.busy), shortest(of.warmup),
                   shortest(of.waiting), shortest(of.drain), shortest(of.finish),
                   std::to_string(of.peak_live), std::to_string(of.peak_live_until_grad_input)});
  }
  return "makespan " + shortest(simulation.makespan) + ", bubble " +
         fixed(100.0 * simulation.bubble_fraction, 1) + "%\n" + table.to_string();
}

std::string comparison_text(double time, double other) {
  constexpr double kSame = 1e-9, kShown = 5e-4;
  const double share = other > 0 ? 1 - time / other : 0;
  if (share <= kSame) return "as much as";
  const std::string percent = share < kShown ? "under 0.1" : fixed(100.0 * share, 1);
  return percent + "% less than";
}

}  // namespace sluice
