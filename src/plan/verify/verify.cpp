// The proof, check by check. Each file beside this one holds one of them.
#include "sluice/verify.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "plan/passes/passes.h"
#include "plan/verify/traffic.h"
#include "plan/verify/verification.h"
#include "sluice/error.h"

namespace sluice {
namespace detail {
namespace {

constexpr std::size_t kMaxViolations = 1 << 16;

}  // namespace

void Verification::add(Violation violation) {
  if (violations_.size() < kMaxViolations)
    violations_.push_back(std::move(violation));
  else
    ++num_cut_;
}

void Verification::report(int rank, int index, std::string reason) {
  add({rank, index, to_text(program.ranks[rank][index]), std::move(reason)});
}

void Verification::report_absent(int rank, const Action& action, std::string reason) {
  add({rank, -1, to_text(action), std::move(reason)});
}

void Verification::report_rank(int rank, std::string reason) {
  add({rank, -1, "", std::move(reason)});
}

std::vector<Violation> Verification::take_violations() {
  std::stable_sort(violations_.begin(), violations_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.rank, a.index) < std::tie(b.rank, b.index);
  });
  if (num_cut_ > 0) {
    violations_.push_back({-1, -1, "", std::to_string(num_cut_) + " more violations"});
  }
  return std::move(violations_);
}

std::string quote(const Action& action) { return "'" + to_text(action) + "'"; }

std::string quote(const Program& program, int rank, int index) {
  return quote(program.ranks[rank][index]);
}

}  // namespace detail

VerifyReport verify(const Program& program) {
  VerifyReport report;
  detail::Verification verification(program);
  if (detail::check_well_formed(verification)) {
    detail::index_instructions(verification);
    detail::check_completeness(verification);
    detail::check_order(verification);
    if (verification.with_transfers) detail::check_transfers(verification);
    detail::check_sharding(verification);
    detail::check_reductions(verification);
    detail::check_deadlock(verification);
  }
  if (verification.clean()) {
    const detail::Traffic traffic =
        detail::read_traffic(verification.with_transfers ? program : add_transfers(program));
    report.required_capacity = detail::required_capacity(traffic);
    report.max_in_flight = detail::max_in_flight(traffic);
  }
  report.violations = verification.take_violations();
  return report;
}

void require_verified(const VerifyReport& report, const std::string& subject) {
  if (report.ok()) return;
  const Violation& first = report.violations.front();
  std::string what = subject + " does not hold";
  if (report.violations.size() > 1) {
    what += formatted(" ({} violations)", report.violations.size());
  }
  std::string where;
  if (first.rank >= 0) where = "rank " + std::to_string(first.rank);
  if (first.index >= 0) where += ", instruction " + std::to_string(first.index);
  if (!first.action.empty()) where += (where.empty() ? "'" : " '") + first.action + "'";
  throw Error(ErrorKind::kInput, {.what = what,
                                  .where = (where.empty() ? "" : where + ": ") + first.reason,
                                  .remedy = "see all with 'sluice schedule --check'"});
}

}  // namespace sluice
