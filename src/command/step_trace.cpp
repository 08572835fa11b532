#include "command/step_trace.h"

#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "comm/gather_messages.h"
#include "sluice/error.h"

namespace sluice {
namespace {

Packer write_events(const std::vector<TraceEvent>& events) {
  std::vector<std::string> names;
  std::vector<int> rows, ranks;
  std::vector<std::int64_t> steps;
  std::vector<double> starts, durations;
  for (const TraceEvent& event : events) {
    names.push_back(event.name);
    rows.push_back(static_cast<int>(event.row));
    ranks.push_back(event.rank);
    steps.push_back(event.step);
    starts.push_back(event.start);
    durations.push_back(event.duration);
  }
  return Packer().add(names).add(rows).add(ranks).add(steps).add(starts).add(durations);
}

void read_events(Unpacker& message, std::vector<TraceEvent>& events) {
  auto names = message.take<std::vector<std::string>>();
  const auto rows = message.take<std::vector<int>>(), ranks = message.take<std::vector<int>>();
  const auto steps = message.take<std::vector<std::int64_t>>();
  const auto starts = message.take<std::vector<double>>();
  const auto durations = message.take<std::vector<double>>();
  message.finish();
  for (std::size_t i = 0; i < names.size(); ++i) {
    events.push_back({std::move(names[i]), static_cast<TraceRow>(rows.at(i)), ranks.at(i),
                      steps.at(i), starts.at(i), durations.at(i)});
  }
}

StepRange numbered(StepRange steps, std::int64_t steps_done) {
  if (!steps.after_resumed) return steps;
  return {steps.first + steps_done, steps.last + steps_done};
}

}  // namespace

StepTrace::StepTrace(const StepRange& steps, std::int64_t steps_done, std::int64_t num_steps,
                     const LocalRanks& ranks)
    : steps_(numbered(steps, steps_done)), recorders_(ranks) {
  if (steps_.last <= steps_done) {
    throw Error(
        ErrorKind::kUsage,
        {.what = formatted("the trace ends with step {}, but the run continues with step {}",
                           steps_.last, steps_done + 1),
         .where = "--profile-steps",
         .remedy = "give later steps"});
  }
  if (steps_.first > num_steps) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the trace starts with step {}, but the run has only {}",
                                   steps_.first, counted(num_steps, "step")),
                 .where = "--profile-steps",
                 .remedy = "give steps that the run makes, or raise training.steps"});
  }
  for (const int rank : ranks.here) recorders_.at(rank).emplace(rank, steps_.first, steps_.last);
}

bool StepTrace::ends_with(std::int64_t step, bool is_last) const {
  return step == steps_.last || (is_last && step < steps_.last);
}

void StepTrace::gather(const Group& world) {
  std::vector<TraceEvent> events;
  for (Unpacker& message : gather_messages(world, write_events(recorder(world.rank()).events()),
                                           "events of the trace")) {
    read_events(message, events);
  }
  if (world.rank() == kRankZero) gathered_ = std::move(events);
}

std::string StepTrace::text() const {
  if (gathered_) return to_chrome_trace(*gathered_);
  std::vector<TraceEvent> events;
  for (const auto& [rank, recorder] : recorders_)
    events.insert(events.end(), recorder->events().begin(), recorder->events().end());
  return events.empty() ? std::string() : to_chrome_trace(events);
}

}  // namespace sluice
