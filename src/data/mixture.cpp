#include "data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice::data {
namespace {

constexpr std::uint32_t kMaxPeriod = 65536;

using Shares = std::vector<long double>;  // of the sequences; they sum to 1

// Computes each entry's places (turns) per `period`. Returns false if one is not an integer.
bool are_turns(const Shares& shares, std::uint32_t period, std::vector<std::uint32_t>& turns) {
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const long double exact = shares[i] * period, nearest = std::round(exact);
    // Tolerates rounding errors of shares such as 0.7 and 0.3.
    if (nearest < 1 || std::abs(exact - nearest) > 1e-12L * period) return false;
    turns[i] = static_cast<std::uint32_t>(nearest);
  }
  return true;
}

std::vector<std::uint32_t> turns_of(const Shares& shares) {
  std::vector<std::uint32_t> turns(shares.size());
  for (std::uint32_t period = 1; period <= kMaxPeriod; ++period) {
    if (are_turns(shares, period, turns)) return turns;
  }
  // No small period is exact: use the largest remainder method, with at least one turn per entry.
  std::uint32_t left = kMaxPeriod;
  std::vector<long double> rest(shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const long double exact = shares[i] * kMaxPeriod;
    turns[i] = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(exact));
    rest[i] = exact - turns[i];
    left -= std::min(left, turns[i]);
  }
  const auto total = [&] { return std::accumulate(turns.begin(), turns.end(), 0U); };
  while (total() > kMaxPeriod) --*std::max_element(turns.begin(), turns.end());
  for (; left > 0; --left) {
    const auto most = std::max_element(rest.begin(), rest.end());
    ++turns[static_cast<std::size_t>(most - rest.begin())];
    *most -= 1;
  }
  return turns;
}

}  // namespace

// Tijdeman's rule: an entry with share s and t earlier turns may take place n (from 1) if s * n - t
// >= 1 / (2k - 2), for k entries. Of these entries, the one with the earliest deadline (1 - 1 / (2k
// - 2) - (s * n - t)) / s takes it. Scaled by 2k - 2 and the period, these numbers are integers.
Mixture::Mixture(const std::vector<double>& weights) {
  long double sum = 0;
  for (const double weight : weights) sum += weight;
  Shares shares;
  for (const double weight : weights) shares.push_back(weight / sum);
  turns_ = turns_of(shares);
  const auto period =
      static_cast<std::int64_t>(std::accumulate(turns_.begin(), turns_.end(), std::uint64_t{0}));
  const auto slack = static_cast<std::int64_t>(std::max<std::size_t>(2 * turns_.size(), 4) - 2);
  std::vector<std::int64_t> had(turns_.size());
  order_.reserve(static_cast<std::size_t>(period));
  for (std::int64_t place = 1; place <= period; ++place) {
    std::size_t chosen = turns_.size();
    std::int64_t chosen_slack = 0;
    for (std::size_t i = 0; i < turns_.size(); ++i) {
      const std::int64_t due = slack * (turns_[i] * place - had[i] * period);
      if (due < period) continue;
      const std::int64_t until = slack * period - period - due;
      const bool is_sooner =
          chosen == turns_.size() || until * turns_[chosen] < chosen_slack * turns_[i];
      if (!is_sooner) continue;
      chosen = i;
      chosen_slack = until;
    }
    if (chosen == turns_.size()) chosen = 0;  // no entry is due: there is only one
    order_.push_back(
        {static_cast<std::uint32_t>(chosen), static_cast<std::uint32_t>(had[chosen]++)});
  }
}

Mixture::Turn Mixture::at(std::uint64_t place) const {
  const std::uint64_t round = place / period();
  const Slot& slot = order_[place % period()];
  return {slot.entry, round * turns_[slot.entry] + slot.number};
}

}  // namespace sluice::data
