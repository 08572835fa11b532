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
  std::vector<Violation> taken = std::exchange(violations_, {});
  // Stable sorting keeps violations at the same instruction in the order of the checks.
  std::stable_sort(taken.begin(), taken.end(), [](const auto& a, const auto& b) {
    return std::tie(a.rank, a.index) < std::tie(b.rank, b.index);
  });
  if (const std::int64_t num_cut = std::exchange(num_cut_, 0); num_cut > 0) {
    taken.push_back({-1, -1, "", std::to_string(num_cut) + " more violations"});
  }
  return taken;
}

std::string quote(const Action& action) { return "'" + to_text(action) + "'"; }

std::string quote(const Program& program, int rank, int index) {
  return quote(program.ranks[rank][index]);
}

}  // namespace detail

namespace {

void check_instructions(detail::Verification& verification) {
  if (!detail::check_well_formed(verification)) return;
  detail::index_instructions(verification);
  detail::check_completeness(verification);
  detail::check_order(verification);
  if (verification.with_transfers) detail::check_transfers(verification);
  detail::check_sharding(verification);
  detail::check_reductions(verification);
  detail::check_deadlock(verification, detail::Streams::kNone, "deadlock");
}

// Finds deadlocks on transports whose SENDs wait for their RECVs.
std::vector<Violation> find_deadlocks_of_streams(detail::Verification& verification) {
  using detail::Streams;
  if (verification.transport == ProofTransport::kRendezvous) {
    detail::check_deadlock(verification, Streams::kPerPair, "deadlock");
  } else if (detail::check_deadlock(verification, Streams::kPerPair, "deadlock over NCCL")) {
    detail::check_deadlock(verification, Streams::kPerRank,
                           "deadlock over NCCL with init_process_group(device_id=..), which runs "
                           "the transfers of a rank one by one");
  }
  return verification.take_violations();
}

}  // namespace

VerifyReport verify(const Program& program, ProofTransport transport) {
  VerifyReport report;
  report.transport = transport;
  detail::Verification verification(program, transport);
  check_instructions(verification);
  report.violations = verification.take_violations();
  std::vector<Violation> of_streams;
  if (report.ok() && verification.with_transfers && transport != ProofTransport::kSluice) {
    of_streams = find_deadlocks_of_streams(verification);
  }
  switch (transport) {
    case ProofTransport::kSluice:
      report.verdicts = {{"sluice", report.violations}};
      break;
    case ProofTransport::kRendezvous:
      report.violations.insert(report.violations.end(), of_streams.begin(), of_streams.end());
      report.verdicts = {{"rendezvous", report.violations}};
      break;
    case ProofTransport::kTorch:
      report.verdicts = {{"gloo", report.violations}};
      report.violations.insert(report.violations.end(), of_streams.begin(), of_streams.end());
      report.verdicts.push_back({"nccl", report.violations});
      break;
  }
  if (report.ok()) {
    const detail::Traffic traffic =
        detail::read_traffic(verification.with_transfers ? program : add_transfers(program),
                             verification.channels_per());
    report.required_capacity = detail::required_capacity(traffic);
    report.max_in_flight = detail::max_in_flight(traffic);
  }
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
