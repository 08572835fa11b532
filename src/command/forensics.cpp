#include "command/forensics.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "job/socket.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Instructions recorded per rank. These cover the last microbatches of any schedule, in about 30
// KB.
constexpr std::size_t kLeastKept = 256;

std::string draw_failure(const Program& program, int rank, int index, const GridOptions& options) {
  const int row = program.mesh.coordinate(rank, Axis::kPp);
  const Action& action = program.ranks.at(row).at(index);
  VerifyReport report;
  report.violations.push_back({row, index, to_text(action), "failed here"});
  return draw_violations(program, report, options);
}

}  // namespace

FlightRecords::FlightRecords(const LocalRanks& ranks, const std::string& metrics_folder,
                             std::string run, const Program& program)
    : folder_(metrics_folder + "/flight"), run_(std::move(run)) {
  std::size_t kept = kLeastKept;
  for (const std::vector<Action>& row : program.ranks) kept = std::max(kept, row.size());
  for (const int rank : ranks.here)
    recorders_.emplace(rank, std::make_unique<FlightRecorder>(kept));
}

std::map<int, const FlightRecorder*> FlightRecords::recorders() const {
  std::map<int, const FlightRecorder*> all;
  for (const auto& [rank, recorder] : recorders_) all[rank] = recorder.get();
  return all;
}

bool FlightRecords::write(const std::string& reason, const std::optional<FlightFailure>& failure) {
  const std::lock_guard lock(writing_);
  std::vector<FlightRecord> records;
  for (const auto& [rank, recorder] : recorders_) {
    FlightRecord record = recorder->record();
    if (record.pass == 0) continue;
    record.run = run_;
    record.host = machine_name();
    record.pid = getpid();
    record.reason = reason;
    record.failure = failure;
    records.push_back(std::move(record));
  }
  if (records.empty()) return false;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  for (const FlightRecord& record : records) {
    const std::string path = folder_ + "/" + flight_file_name(record.rank);
    const int failed = error ? error.value() : replace_file(path, flight_json(record));
    if (failed == 0) continue;
    log_warning(file_error(ErrorKind::kUsage, "cannot write a flight record", path, failed).what());
    return false;
  }
  return true;
}

std::string FlightRecords::write_failure(const Failure& failure) noexcept {
  try {
    const FlightFailure recorded{failure.rank, static_cast<int>(failure.kind), failure.message};
    return write("failure", recorded) ? folder_ : "";
  } catch (...) {  // the failure matters more than its record
    return "";
  }
}

void FlightRecords::write_on_request() noexcept {
  try {
    if (write("signal", std::nullopt)) {
      log_info(formatted("flight records of {} in {}; `sluice debug flight {}` compares them",
                         counted(static_cast<std::int64_t>(recorders_.size()), "rank"), folder_,
                         folder_));
    } else {
      log_info("there is no flight record before a rank's first instruction");
    }
  } catch (const std::exception& error) {
    log_warning(std::string("cannot write flight records: ") + error.what());
  }
}

void PostMortem::add(int rank, int instruction, std::string flight_record) {
  const std::lock_guard lock(mutex_);
  ranks_[rank] = {instruction, std::move(flight_record)};
}

std::string PostMortem::text(const Program& program, const Failure& failure,
                             const GridOptions& options) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  if (here_.has(failure.rank)) {
    const auto culprit = ranks_.find(failure.rank);
    if (culprit == ranks_.end() || culprit->second.instruction < 0) return {};
    text = draw_failure(program, failure.rank, culprit->second.instruction, options);
  }
  for (const auto& [rank, entry] : ranks_) {
    text += formatted("\nrank {}, last instructions:\n{}", rank, entry.flight_record);
  }
  return text;
}

}  // namespace sluice
