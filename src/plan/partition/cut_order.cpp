#include "plan/partition/cut_order.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace sluice::detail {
namespace {

using Starts = std::vector<int>;
using Cost = std::int64_t;  // in units of 1e-12 of all costs, so that equal sums compare equal

constexpr Cost kNone = std::numeric_limits<Cost>::max();
constexpr double kSteps = 1e12;
constexpr std::int64_t kMostSplits = 200'000;  // above this, do not enumerate all
constexpr std::int64_t kMostNodes = 300'000;
constexpr std::size_t kMostAsked = 2'000;

struct Merit {
  Cost slowest = kNone, largest_stage = kNone;
  friend auto operator<=>(const Merit&, const Merit&) = default;
};

struct Better {
  bool operator()(const std::pair<Merit, Starts>& a, const std::pair<Merit, Starts>& b) const {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  }
};

struct HashOfStarts {
  std::size_t operator()(const Starts& starts) const {
    std::size_t hash = 0;
    for (const int start : starts) hash = hash * 1000003 + static_cast<std::size_t>(start);
    return hash;
  }
};

struct Worse {
  bool operator()(const std::pair<Merit, Starts>& a, const std::pair<Merit, Starts>& b) const {
    return Better()(b, a);
  }
};

}  // namespace

class CutOrder::Splitter {
 public:
  explicit Splitter(SplitProblem problem)
      : problem_(std::move(problem)),
        num_layers_(static_cast<int>(problem_.costs.size())),
        num_stages_(static_cast<int>(problem_.stage_to_rank.size())) {
    for (const int rank : problem_.stage_to_rank) num_ranks_ = std::max(num_ranks_, rank + 1);
    const double sum = std::accumulate(problem_.costs.begin(), problem_.costs.end(), 0.0);
    before_.push_back(0);
    for (const double cost : problem_.costs) {
      costs_.push_back(sum > 0 ? std::llround(cost / sum * kSteps) : 0);
      before_.push_back(before_.back() + costs_.back());
    }
  }

  const Starts* at(std::size_t place) {
    if (num_splits() <= kMostSplits) return of_all(place);
    while (found_.size() <= place) {
      if (!find_next()) return nullptr;
    }
    return &found_[place];
  }

 private:
  Cost sum_of(int first, int stop) const { return before_[stop] - before_[first]; }
  int stop_of(const Starts& starts, std::size_t stage) const {
    return stage + 1 < starts.size() ? starts[stage + 1] : num_layers_;
  }

  Merit merit_of(const Starts& starts) const {
    std::vector<Cost> loads(static_cast<std::size_t>(num_ranks_), 0);
    Merit merit{0, 0};
    for (std::size_t s = 0; s < starts.size(); ++s) {
      const Cost cost = sum_of(starts[s], stop_of(starts, s));
      Cost& load = loads[static_cast<std::size_t>(problem_.stage_to_rank[s])];
      load += cost;
      merit.slowest = std::max(merit.slowest, load);
      merit.largest_stage = std::max(merit.largest_stage, cost);
    }
    return merit;
  }

  // Stops counting just above kMostSplits.
  std::int64_t num_splits() const {
    const int places = problem_.last_cut - problem_.first_cut + 1;
    const int cuts = std::min(num_stages_ - 1, places - (num_stages_ - 1));
    std::int64_t count = 1;
    for (int i = 0; i < cuts; ++i) {
      count = count * (places - i) / (i + 1);
      if (count > kMostSplits) return count;
    }
    return count;
  }

  template <typename Visit>
  void visit_all(Starts& starts, const Visit& visit) const {
    const int left = num_stages_ - static_cast<int>(starts.size());
    if (left == 0) {
      visit(starts);
      return;
    }
    const int from = std::max(problem_.first_cut, starts.back() + 1);
    for (int next = problem_.last_cut - (left - 1); next >= from; --next) {
      starts.push_back(next);
      visit_all(starts, visit);
      starts.pop_back();
    }
  }

  const Starts* of_all(std::size_t place) {
    if (place == 0) return first_of_all();
    if (all_.empty()) {
      Starts starts = {0};
      visit_all(starts, [&](const Starts& each) { all_.emplace_back(merit_of(each), each); });
      std::sort(all_.begin(), all_.end(), Better());
    }
    // Callers take long to try a cut, so return only a sample of the slower cuts.
    const std::size_t rest = all_.size() > kMostAsked ? all_.size() - kMostAsked : 0;
    const std::size_t stride = 1 + rest / kMostAsked;
    const std::size_t i = place < kMostAsked ? place : kMostAsked + (place - kMostAsked) * stride;
    return i < all_.size() ? &all_[i].second : nullptr;
  }

  const Starts* first_of_all() {
    if (!found_.empty()) return &found_.front();
    std::pair<Merit, Starts> best;
    Starts starts = {0};
    visit_all(starts, [&](const Starts& each) {  // visits long first stages first
      if (const Merit merit = merit_of(each); merit < best.first) best = {merit, each};
    });
    return &found_.emplace_back(std::move(best.second));
  }

  // ---- one stage a rank: dynamic programming ----

  // Returns where each stage starts in the split of the layers whose largest stage cost is
  // smallest. Dynamic programming, for one stage a rank: the best split of layers i.. into stages
  // s.. follows from the best splits into stages s + 1...
  Starts by_programming() const {
    // least[s][i]: smallest possible largest stage if stages from s on hold the layers from i on.
    std::vector<std::vector<Cost>> least(
        static_cast<std::size_t>(num_stages_),
        std::vector<Cost>(static_cast<std::size_t>(num_layers_) + 1, kNone));
    for (int i = 0; i < num_layers_; ++i) least[num_stages_ - 1][i] = sum_of(i, num_layers_);
    for (int s = num_stages_ - 2; s >= 0; --s) {
      for (int i = 0; i < num_layers_; ++i) {
        for (int next = std::max(i + 1, problem_.first_cut); next <= problem_.last_cut; ++next) {
          const Cost rest = least[s + 1][next];
          if (rest != kNone) least[s][i] = std::min(least[s][i], std::max(rest, sum_of(i, next)));
        }
      }
    }
    Starts starts = {0};
    const Cost bound = least[0][0];
    for (int s = 1; s < num_stages_; ++s) {
      int next = problem_.last_cut;
      while (least[s][next] > bound || sum_of(starts.back(), next) > bound) --next;
      starts.push_back(next);
    }
    return starts;
  }

  // ---- several stages a rank: branch and bound ----

  struct Search {
    Starts starts = {0};
    std::vector<Cost> loads;
    Cost largest = 0;
    std::pair<Merit, Starts> best;
    std::int64_t nodes = 0;
    bool only_faster = true;  // false: also try splits that are as fast
  };

  // Whether the layers from `position` on may fit on the ranks if each rank's load is at most
  // `bound`. Compares total room, and each rank's room in units of the smallest of these layers.
  bool may_hold(const std::vector<Cost>& loads, int position, Cost bound) const {
    const Cost smallest = smallest_from_[static_cast<std::size_t>(position)];
    Cost room = 0;
    std::int64_t layers = 0;
    for (const Cost load : loads) {
      if (load > bound) return false;
      room += bound - load;
      layers += smallest > 0 ? (bound - load) / smallest : num_layers_;
    }
    return room >= sum_of(position, num_layers_) && layers >= num_heavy_from_[position];
  }

  // Embedding and head may cost almost nothing, so only blocks count as whole layers.
  void count_blocks() {
    smallest_from_.assign(static_cast<std::size_t>(num_layers_) + 1, 0);
    num_heavy_from_.assign(static_cast<std::size_t>(num_layers_) + 1, 0);
    Cost smallest = kNone;
    for (int i = num_layers_ - 1; i >= 0; --i) {
      if (i >= problem_.first_cut && i < problem_.last_cut) {
        smallest = std::min(smallest, costs_[i]);
        num_heavy_from_[i] = num_heavy_from_[i + 1] + 1;
      } else {
        num_heavy_from_[i] = num_heavy_from_[i + 1];
      }
      smallest_from_[i] = smallest == kNone ? 0 : smallest;
    }
  }

  void branch(Search& search) const {
    if (++search.nodes > kMostNodes) return;
    const auto stage = search.starts.size() - 1;
    const int begin = search.starts.back();
    Cost& load = search.loads[static_cast<std::size_t>(problem_.stage_to_rank[stage])];
    const int left = num_stages_ - static_cast<int>(search.starts.size());
    const Cost largest = search.largest;
    const auto with_stage_to = [&](int stop, const auto& go_on) {
      const Cost cost = sum_of(begin, stop);
      load += cost;
      search.largest = std::max(largest, cost);
      const Merit& best = search.best.first;
      const bool may_equal = !search.only_faster && search.largest < best.largest_stage;
      const Cost bound = may_equal ? best.slowest : best.slowest - 1;
      if (may_hold(search.loads, stop, bound)) go_on();
      load -= cost;
      search.largest = largest;
    };
    if (left == 0) {
      with_stage_to(num_layers_, [&] {
        const Merit merit{*std::max_element(search.loads.begin(), search.loads.end()),
                          search.largest};
        if (merit < search.best.first) search.best = {merit, search.starts};
      });
      return;
    }
    // Try equally large stages first, to find a good split early.
    const int from = std::max(problem_.first_cut, begin + 1), to = problem_.last_cut - (left - 1);
    const Cost even = before_[begin] + (before_.back() - before_[begin]) / (left + 1);
    std::vector<int> nexts(static_cast<std::size_t>(to - from + 1));
    std::iota(nexts.begin(), nexts.end(), from);
    std::stable_sort(nexts.begin(), nexts.end(), [&](int a, int b) {
      const Cost of_a = std::abs(before_[a] - even), of_b = std::abs(before_[b] - even);
      return of_a != of_b ? of_a < of_b : a > b;
    });
    for (const int next : nexts) {
      with_stage_to(next, [&] {
        search.starts.push_back(next);
        branch(search);
        search.starts.pop_back();
      });
    }
  }

  Starts by_bounding() {
    count_blocks();
    Search search;
    search.loads.assign(static_cast<std::size_t>(num_ranks_), 0);
    search.best = {merit_of(by_programming()), by_programming()};
    branch(search);
    search.only_faster = false;
    search.nodes = 0;
    branch(search);
    return search.best.second;
  }

  // ---- too many to enumerate: neighbours of the best split ----

  bool find_next() {
    if (found_.empty()) {
      found_.push_back(num_ranks_ == num_stages_ ? by_programming() : by_bounding());
      seen_.insert(found_.front());
      return true;
    }
    if (found_.size() > kMostAsked) return false;
    add_neighbours(found_.back());
    if (open_.empty()) return false;
    found_.push_back(open_.top().second);
    open_.pop();
    return true;
  }

  void add_neighbours(const Starts& of) {
    for (std::size_t s = 1; s < of.size(); ++s) {
      for (const int step : {1, -1}) {
        Starts moved = of;
        moved[s] += step;
        const int low = std::max(problem_.first_cut, moved[s - 1] + 1);
        const int high = s + 1 < of.size() ? moved[s + 1] - 1 : problem_.last_cut;
        if (moved[s] < low || moved[s] > high || !seen_.insert(moved).second) continue;
        const Merit merit = merit_of(moved);
        open_.emplace(merit, std::move(moved));
      }
    }
  }

  const SplitProblem problem_;
  const int num_layers_, num_stages_;
  int num_ranks_ = 0;
  std::vector<Cost> costs_;
  std::vector<Cost> before_;  // [i]: cost of the layers before i
  std::vector<Cost> smallest_from_;
  std::vector<std::int64_t> num_heavy_from_;
  std::deque<Starts> found_;
  std::vector<std::pair<Merit, Starts>> all_;
  std::unordered_set<Starts, HashOfStarts> seen_;
  std::priority_queue<std::pair<Merit, Starts>, std::vector<std::pair<Merit, Starts>>, Worse> open_;
};

CutOrder::CutOrder(SplitProblem problem)
    : splitter_(std::make_unique<Splitter>(std::move(problem))) {}
CutOrder::CutOrder(CutOrder&&) noexcept = default;
CutOrder& CutOrder::operator=(CutOrder&&) noexcept = default;
CutOrder::~CutOrder() = default;

const std::vector<int>* CutOrder::at(std::size_t place) { return splitter_->at(place); }

}  // namespace sluice::detail
