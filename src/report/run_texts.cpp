#include "report/run_texts.h"

#include <numbers>

#include "base/format.h"
#include "base/places.h"
#include "base/text.h"
#include "plan/predict/costs.h"
#include "report/metrics.h"

namespace sluice {
namespace {

constexpr double kTellingShare = 0.01;  // from this share of the first step on, estimate the rest

std::string milliseconds_text(double seconds) { return fixed(1000 * seconds, 1) + " ms"; }

}  // namespace

std::string place_of_rank(const Plan& plan, int rank) {
  std::vector<int> stages;
  const int row = plan.program.mesh.coordinate(rank, Axis::kPp);
  for (const StageContent& stage : plan.partition.stages) {
    if (stage.rank == row) stages.push_back(stage.stage);
  }
  return place_text(rank, stages);
}

std::string nats_and_bits(double nats) {
  return formatted("{} nats, {} bits", fixed(nats, 4), fixed(nats / std::numbers::ln2, 4));
}

std::string first_step_note(double share, double seconds) {
  std::string text = formatted("note: {}% of the first step after {}", fixed(100 * share, 1),
                               duration_text(seconds));
  if (share >= kTellingShare) text += ", " + duration_text(seconds / share - seconds) + " to go";
  return text;
}

std::string unsplit_stages_text(const Plan& plan, const std::vector<int>& stages) {
  const Simulation simulation =
      simulate(plan.program, add_unsplit_costs(plan.costs, plan.program.num_stages(), stages));
  const std::string time = plan.time_unit.empty() ? fixed(simulation.makespan, 0) + " units of time"
                           : plan.time_unit == "s"
                               ? milliseconds_text(simulation.makespan)
                               : fixed(simulation.makespan, 3) + " " + plan.time_unit;
  return formatted(
      "note: the backward of stage {} does not split: all its gradients are computed at I. The "
      "step then takes {}, with a bubble of {}%\n",
      numbers_text(stages), time, fixed(100 * simulation.bubble_fraction, 1));
}

std::string peak_memory_text(const Plan& plan, const std::vector<std::int64_t>& peaks) {
  TextTable table({{"rank", Align::kRight},
                   {"predicted", Align::kRight},
                   {"measured", Align::kRight},
                   {"measured / predicted", Align::kRight}});
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    const int row = plan.program.mesh.coordinate(static_cast<int>(rank), Axis::kPp);
    const std::int64_t predicted = plan.ranks[row].memory.total_bytes(), measured = peaks[rank];
    table.add_row({std::to_string(rank), human_bytes(predicted), human_bytes(measured),
                   fixed(static_cast<double>(measured) / static_cast<double>(predicted), 2)});
  }
  return "\npeak memory, bytes of tensors\n" + table.to_string("  ");
}

std::string step_time_text(const Plan& plan, const StepTimesSeen& seen) {
  const std::optional<double> measured = seen.median();
  if (plan.time_unit != "s" || !measured) return {};
  const double predicted = plan.simulation.makespan;
  std::string text =
      formatted("step time: {} predicted, {} measured (median of {}), measured / predicted {}",
                milliseconds_text(predicted), milliseconds_text(*measured),
                counted(seen.num_counted(), "step"), fixed(*measured / predicted, 2));
  if (!plan.candidates.empty()) text += formatted("; {} was chosen for it", plan.schedule.name);
  return text + "\n";
}

}  // namespace sluice
