// Builds list schedules with many policies and improves the best by local search. A change moves
// one step, splits a B into I and W, or merges them. Late acceptance (Burke and Bykov, 2017) keeps
// changes that are no worse than the order kMemory changes ago.
#include "plan/choose/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plan/choose/search/list_schedule.h"
#include "plan/choose/search/order.h"

namespace sluice {
namespace {

using detail::Order;
using detail::OrderMerit;
using detail::OrderStep;
using detail::OrderTimer;

constexpr std::size_t kMostStarts = 3;  // schedules from which a local search starts
constexpr std::size_t kMemory = 60;     // history length of late acceptance, in changes
constexpr double kShareOfFinish = 1e-3;

// splitmix64 (Steele, Lea and Flood, 2014), with equal numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }

 private:
  std::uint64_t state_;
};

struct Candidate {
  Order order;
  OrderMerit merit;
};

double value_of(const OrderMerit& merit) { return merit.makespan + kShareOfFinish * merit.finish; }

class Search {
 public:
  Search(const detail::OrderProblem& problem, const SearchOptions& options)
      : problem_(problem), options_(options), timer_(problem), random_(options.seed) {}

  std::optional<Order> run() {
    for (const Schedule& start : options_.starts) {
      if (start.stage_map == problem_.stage_map) add(detail::order_of(start));
    }
    const std::int64_t for_lists = options_.effort / 4;
    for (const detail::ListPolicy& policy : detail::list_policies(problem_)) {
      if (timer_.num_steps() > for_lists && !found_.empty()) break;
      add(detail::list_schedule(problem_, policy));
    }
    if (found_.empty()) return std::nullopt;
    std::stable_sort(found_.begin(), found_.end(), is_better);
    found_.resize(std::min(found_.size(), kMostStarts));
    const std::int64_t left = std::max<std::int64_t>(0, options_.effort - timer_.num_steps());
    const std::int64_t each = left / std::ssize(found_);
    for (Candidate& start : found_) improve(start, timer_.num_steps() + each);
    return std::min_element(found_.begin(), found_.end(), is_better)->order;
  }

 private:
  static bool is_better(const Candidate& a, const Candidate& b) {
    return a.merit.makespan != b.merit.makespan ? a.merit.makespan < b.merit.makespan
                                                : a.merit.finish < b.merit.finish;
  }

  void add(Order order) {
    if (order.empty()) return;
    const OrderMerit merit = timer_.time(order);
    if (!std::isfinite(merit.makespan)) return;
    const bool is_known = std::any_of(found_.begin(), found_.end(),
                                      [&](const Candidate& each) { return each.order == order; });
    if (!is_known) found_.push_back({std::move(order), merit});
  }

  // No order is faster than the compute time of its busiest rank.
  double least_makespan(const Order& order) const {
    double least = 0;
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      double busy = 0;
      for (const OrderStep& step : order[rank]) busy += problem_.cost(static_cast<int>(rank), step);
      least = std::max(least, busy);
    }
    return least;
  }

  void improve(Candidate& best, std::int64_t until) {
    Candidate now = best;
    std::vector<double> earlier(kMemory, value_of(now.merit));
    for (std::size_t turn = 0; timer_.num_steps() < until; ++turn) {
      const auto rank = random_.below(now.order.size());
      std::vector<OrderStep>& row = now.order[rank];
      std::vector<OrderStep> before = row;
      if (!change(row)) {
        if (turn > 1000 * kMemory) break;  // every rank has one step
        continue;
      }
      const OrderMerit merit = timer_.time(now.order);
      const double value = value_of(merit);
      double& then = earlier[turn % kMemory];
      if (value <= value_of(now.merit) || value <= then) {
        now.merit = merit;
        if (is_better(now, best)) best = now;
      } else {
        row = std::move(before);
      }
      then = value_of(now.merit);
      if (best.merit.makespan <= least_makespan(best.order) * (1 + 1e-12)) break;
    }
  }

  // Returns false if it changed nothing.
  bool change(std::vector<OrderStep>& row) {
    if (row.size() < 2) return false;
    const std::size_t from = random_.below(row.size());
    if (random_.below(8) == 0) return split_or_merge(row, from);
    // Prefer short moves.
    const std::size_t reach =
        random_.below(4) == 0 ? row.size() : std::min<std::size_t>(row.size(), 6);
    const std::size_t distance = 1 + random_.below(reach);
    const bool later = random_.below(2) == 0;
    const std::size_t to =
        later ? std::min(row.size() - 1, from + distance) : from - std::min(from, distance);
    if (to == from || row[from] == row[to]) return false;
    const auto at = [&](std::size_t index) {
      return row.begin() + static_cast<std::ptrdiff_t>(index);
    };
    if (later)
      std::rotate(at(from), at(from) + 1, at(to) + 1);
    else
      std::rotate(at(to), at(from), at(from) + 1);
    return true;
  }

  // Splits a B into I and W, or merges adjacent I and W of a stage into a B.
  static bool split_or_merge(std::vector<OrderStep>& row, std::size_t at) {
    const OrderStep step = row[at];
    const auto place = row.begin() + static_cast<std::ptrdiff_t>(at);
    if (step.kind == ActionKind::kBackward) {
      place->kind = ActionKind::kBackwardInput;
      row.insert(place + 1, {step.stage, ActionKind::kBackwardWeight});
      return true;
    }
    const bool is_pair = step.kind == ActionKind::kBackwardInput && at + 1 < row.size() &&
                         row[at + 1] == OrderStep{step.stage, ActionKind::kBackwardWeight};
    if (!is_pair) return false;
    place->kind = ActionKind::kBackward;
    row.erase(place + 1);
    return true;
  }

  const detail::OrderProblem& problem_;
  const SearchOptions& options_;
  OrderTimer timer_;
  Random random_;
  std::vector<Candidate> found_;
};

}  // namespace

std::optional<Schedule> search_schedule(const StageMap& stage_map, int num_microbatches,
                                        const Costs& costs, const SearchOptions& options) {
  const double most = options.max_bytes.value_or(std::numeric_limits<double>::infinity());
  const detail::OrderProblem problem =
      detail::order_problem(stage_map, num_microbatches, costs, most);
  const std::optional<Order> found = Search(problem, options).run();
  if (!found) return std::nullopt;
  return detail::schedule_of(*found, stage_map, num_microbatches);
}

}  // namespace sluice
