#include "report/straggler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/places.h"
#include "base/text.h"
#include "report/run_texts.h"

namespace sluice {
namespace {

// Returns the lower of two middle values, so that the slower of two ranks is compared with the
// faster.
double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<RankWork> rank_work(const Plan& plan) {
  const Program& program = plan.program;
  std::vector<RankWork> of_row(static_cast<std::size_t>(program.num_ranks()));
  std::vector<double> blocks(of_row.size(), 0);
  for (const StageContent& content : plan.partition.stages) {
    RankWork& work = of_row.at(static_cast<std::size_t>(content.rank));
    work.stages.push_back(content.stage);
    // Ranks of equal `kind` differ only in their number of blocks, since all or none of their
    // layers are recomputed.
    int num_blocks = 0;
    for (const int layer : content.layers) {
      if (plan.model.layers.at(layer).role == LayerRole::kBlock) {
        ++num_blocks;
      } else {
        work.kind += plan.model.layers.at(layer).name + "+";
      }
    }
    blocks[static_cast<std::size_t>(content.rank)] += num_blocks;
    work.kind += formatted("blocks, backward {}", static_cast<int>(content.backward));
    if (!content.recomputed.empty()) {
      const bool all = content.recomputed.size() == content.layers.size();
      work.kind += all ? ", all again" : formatted(", {} again", content.stage);
    }
    work.kind += "; ";
  }
  for (std::size_t row = 0; row < of_row.size(); ++row)
    of_row[row].amount = std::max(1.0, blocks[row]);

  if (program.mesh.size(Axis::kPp) != program.num_ranks()) return of_row;
  std::vector<RankWork> work;
  for (int rank = 0; rank < program.mesh.num_ranks(); ++rank)
    work.push_back(of_row.at(static_cast<std::size_t>(program.mesh.coordinate(rank, Axis::kPp))));
  return work;
}

std::string straggler_text(const Straggler& straggler, const RankWork& work) {
  return formatted(
      "straggler: {} computes {} times as long as the other ranks suggest, for {}; check its "
      "machine: clock, temperature, other programs",
      place_text(straggler.rank, work.stages), fixed(straggler.factor, 1),
      counted(straggler.steps, "step"));
}

// Returns seconds per amount of work, relative to the median. A rank with its usual share has 1.
std::vector<double> StragglerWatch::normalized(const std::vector<double>& seconds) const {
  std::vector<double> ratios(seconds.size());
  for (std::size_t rank = 0; rank < seconds.size(); ++rank) {
    ratios[rank] = seconds[rank] / work_[rank].amount;
    if (!share_.empty()) ratios[rank] /= share_[rank];
  }
  const double median = lower_median(ratios);
  for (double& ratio : ratios) ratio = median > 0 ? ratio / median : 1;
  return ratios;
}

// Sets each rank's usual share of time to the median of its kind over the window, and divides the
// window's ratios by it.
void StragglerWatch::learn() {
  std::map<std::string, std::vector<double>> of_kind;
  for (std::size_t rank = 0; rank < work_.size(); ++rank) {
    std::vector<double> ratios;
    for (const Observation& observation : window_) ratios.push_back(observation.ratios[rank]);
    of_kind[work_[rank].kind].push_back(lower_median(ratios));
  }
  constexpr double kLeast = 1e-9;  // for ranks that compute nothing
  for (const RankWork& work : work_)
    share_.push_back(std::max(kLeast, lower_median(of_kind.at(work.kind))));
  for (Observation& observation : window_) {
    for (std::size_t rank = 0; rank < work_.size(); ++rank)
      observation.ratios[rank] /= share_[rank];
    const double median = lower_median(observation.ratios);
    for (double& ratio : observation.ratios) ratio = median > 0 ? ratio / median : 1;
  }
}

// Returns the mean slowdown over the window without the largest fifth, which may be accidents.
// Returns nothing unless the rank was slow in nearly all of the window.
std::optional<double> StragglerWatch::slowdown(std::size_t rank) const {
  std::vector<double> ratios;
  for (const Observation& observation : window_) ratios.push_back(observation.ratios[rank]);
  const auto slow = static_cast<std::size_t>(std::count_if(
      ratios.begin(), ratios.end(), [](double r) { return r > 1 + (kFactor - 1) / 2; }));
  if (slow + ratios.size() / 10 < ratios.size()) return std::nullopt;
  std::sort(ratios.begin(), ratios.end());
  ratios.resize(ratios.size() - ratios.size() / 5);
  double sum = 0;
  for (const double ratio : ratios) sum += ratio;
  const double factor = sum / static_cast<double>(ratios.size());

  double seconds = 0;
  for (const Observation& observation : window_) seconds += observation.seconds[rank];
  const double excess = seconds / static_cast<double>(window_steps_) * (1 - 1 / factor);
  if (excess < kLeastExcess) return std::nullopt;
  return factor;
}

std::vector<Straggler> StragglerWatch::add(const std::vector<double>& seconds, std::int64_t steps) {
  if (work_.size() < 2 || seconds.size() != work_.size() || steps < 1) return {};
  if (!std::exchange(skipped_first_, true)) return {};
  in_episode_.resize(work_.size());
  window_.push_back({seconds, normalized(seconds), steps});
  window_steps_ += steps;
  const auto is_long = [&](std::int64_t in_steps, std::size_t observations) {
    return in_steps >= kSteps && observations >= kLeastObservations;
  };
  while (is_long(window_steps_ - window_.front().steps, window_.size() - 1)) {
    window_steps_ -= window_.front().steps;
    window_.pop_front();
  }
  if (!is_long(window_steps_, window_.size())) return {};
  if (share_.empty()) learn();

  std::vector<Straggler> begun;
  for (std::size_t rank = 0; rank < work_.size(); ++rank) {
    const std::optional<double> factor = slowdown(rank);
    if (!factor) {
      in_episode_[rank] = false;
    } else if (*factor > kFactor && !in_episode_[rank]) {
      in_episode_[rank] = true;
      begun.push_back({static_cast<int>(rank), *factor, window_steps_});
    }
  }
  return begun;
}

}  // namespace sluice
