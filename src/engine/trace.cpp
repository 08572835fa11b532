#include "sluice/parts/observers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/json.h"
#include "plan/action_kinds.h"

namespace sluice {
namespace {

TraceRow row_of(ActionKind kind) {
  if (is_compute(kind)) return TraceRow::kCompute;
  return is_transfer(kind) ? TraceRow::kTransfers : TraceRow::kStepEnd;
}

const char* name_of(TraceRow row) {
  switch (row) {
    case TraceRow::kCompute:
      return "compute";
    case TraceRow::kTransfers:
      return "transfers";
    case TraceRow::kWaits:
      return "waits";
    case TraceRow::kStepEnd:
      break;
  }
  return "end of step";
}

double microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

Json metadata(const char* what, int rank, int row, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}};
}

}  // namespace

void TraceRecorder::begin_step(std::int64_t step) { step_ = step; }

void TraceRecorder::begin(int /*index*/, const Action& action) {
  if (!is_on()) return;
  is_pair_ = action.kind == ActionKind::kOverlap;
  action_start_ = Clock::now();
}

void TraceRecorder::end(int /*index*/, const Action& action) {
  if (is_on()) add(to_text(action), row_of(action.kind), action_start_);
}

void TraceRecorder::waiting(const Action& /*action*/) {
  if (is_on()) wait_start_ = Clock::now();
}

void TraceRecorder::arrived(const Action& action, const std::vector<at::Tensor>& /*tensors*/) {
  if (!is_on()) return;
  add("wait of " + to_text(action), TraceRow::kWaits, wait_start_);
  if (!is_pair_) action_start_ = Clock::now();
}

void TraceRecorder::begin_idle_work(const Action& /*action*/) {
  if (is_on()) work_start_ = Clock::now();
}

void TraceRecorder::end_idle_work(const Action& action) {
  if (is_on()) add(to_text(action), row_of(action.kind), work_start_);
}

void TraceRecorder::add(std::string name, TraceRow row, Clock::time_point start) {
  events_.push_back({std::move(name), row, rank_, step_, microseconds(start.time_since_epoch()),
                     microseconds(Clock::now() - start)});
}

std::string to_chrome_trace(std::span<const TraceEvent> events) {
  double start = 0;
  std::set<std::pair<int, TraceRow>> rows;
  for (const TraceEvent& event : events) {
    start = rows.empty() ? event.start : std::min(start, event.start);
    rows.emplace(event.rank, event.row);
  }
  Json list = Json::array();
  for (const auto& [rank, row] : rows) {
    list.push_back(metadata("process_name", rank, 0, "rank " + std::to_string(rank)));
    list.push_back(metadata("thread_name", rank, static_cast<int>(row), name_of(row)));
  }
  for (const TraceEvent& event : events) {
    list.push_back({{"name", event.name},
                    {"cat", name_of(event.row)},
                    {"ph", "X"},
                    {"pid", event.rank},
                    {"tid", static_cast<int>(event.row)},
                    {"ts", event.start - start},
                    {"dur", event.duration},
                    {"args", {{"step", event.step}}}});
  }
  return Json{{"traceEvents", std::move(list)}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace sluice
