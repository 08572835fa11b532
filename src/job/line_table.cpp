#include "job/line_table.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStatusTime{300};
constexpr std::size_t kMaxStatuses = 3;

// True for rank 2 if `status` is "rank 0 waits for 1RECV_B3 from rank 2".
bool waits_for(const std::string& status, int rank) {
  for (const char* way : {" from rank ", " to rank ", " for rank "}) {
    const std::string wanted = way + std::to_string(rank);
    for (std::size_t at = 0; (at = status.find(wanted, at)) != std::string::npos; ++at) {
      const std::size_t after = at + wanted.size();
      if (after == status.size() || !std::isdigit(static_cast<unsigned char>(status[after])))
        return true;
    }
  }
  return false;
}

}  // namespace

std::string silence_text(milliseconds heartbeat) {
  return "is lost: it has been silent for more than " +
         shortest(static_cast<double>(heartbeat.count()) / 1000) + " s";
}

std::string hung_text(const std::string& what, const std::string& waits,
                      const std::string& remedy) {
  return Error(ErrorKind::kPeer, {.what = what, .where = waits, .remedy = remedy}).what();
}

std::string remedy_for_end() {
  return "check its last output and whether the system ended it (out of memory)";
}

std::string remedy_for_silence() {
  return "look at what it does and whether its machine can be reached, or raise "
         "comm.heartbeat_seconds";
}

std::optional<JobFailure> LineTable::open(Line line, Clock::duration counted) {
  const int process = line.process;
  line.last_heard = counted;
  const auto [at, is_new] = lines_.try_emplace(process, line);
  if (is_new) return std::nullopt;
  const Error error(ErrorKind::kUsage,
                    {.what = formatted("two processes joined as process {}: {}, and {}", process,
                                       at->second.name, line.name),
                     .remedy = "give every process a different RANK"});
  return JobFailure{.process = process,
                    .kind = error.kind(),
                    .message = error.what(),
                    .teller = lowest_alive(-1)};
}

void LineTable::heard(int process, const std::string& status, Clock::duration counted) {
  const auto found = lines_.find(process);
  if (found == lines_.end()) return;
  found->second.last_heard = counted;
  found->second.status = status;
  found->second.has_answered = true;
}

void LineTable::end(int process, Clock::time_point now) {
  const auto found = lines_.find(process);
  if (found == lines_.end() || found->second.judge_at) return;
  found->second.judge_at = now + std::max(grace_, kStatusTime);
  for (auto& [other, line] : lines_) line.has_answered = false;
}

bool LineTable::has_suspect() const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [](const auto& entry) { return entry.second.judge_at.has_value(); });
}

std::optional<JobFailure> LineTable::judge(Clock::time_point now, Clock::duration counted) {
  const bool all_answered = std::all_of(lines_.begin(), lines_.end(), [](const auto& entry) {
    return entry.second.judge_at || entry.second.has_answered;
  });
  for (const auto& [process, line] : lines_) {
    std::string how, remedy;
    if (line.judge_at) {
      const bool is_due = now >= *line.judge_at || (grace_ == milliseconds(0) && all_answered);
      if (!is_due) continue;
      how = "is lost: its connection ended";
      remedy = remedy_for_end();
    } else if (counted - line.last_heard > line.heartbeat) {
      how = silence_text(line.heartbeat);
      remedy = remedy_for_silence();
    } else {
      continue;
    }
    JobFailure failure = failure_of(line, how, remedy);
    lines_.erase(process);
    return failure;
  }
  return std::nullopt;
}

JobFailure LineTable::lost(int process, const std::string& how) {
  const auto found = lines_.find(process);
  Line line{.process = process, .name = "process " + std::to_string(process)};
  if (found != lines_.end()) line = found->second;
  JobFailure failure = failure_of(line, how, remedy_for_end());
  lines_.erase(process);
  return failure;
}

bool LineTable::lives(int process) const {
  const auto found = lines_.find(process);
  return found != lines_.end() && !found->second.judge_at;
}

int LineTable::lowest_alive(int but, int and_but) const {
  for (const auto& [process, line] : lines_) {
    if (process != but && process != and_but && !line.judge_at) return process;
  }
  return -1;
}

std::optional<milliseconds> LineTable::shortest_heartbeat() const {
  std::optional<milliseconds> shortest;
  for (const auto& [process, line] : lines_)
    shortest = shortest ? std::min(*shortest, line.heartbeat) : line.heartbeat;
  return shortest;
}

std::string LineTable::statuses_waiting_for(const std::vector<int>& ranks, int but) const {
  std::vector<std::string> for_it, all;
  for (const auto& [process, line] : lines_) {
    if (process == but || line.judge_at || line.status.empty()) continue;
    all.push_back(line.status);
    const bool is_for_it =
        std::any_of(ranks.begin(), ranks.end(),
                    [&status = line.status](int rank) { return waits_for(status, rank); });
    if (is_for_it) for_it.push_back(line.status);
  }
  std::vector<std::string> shown = for_it.empty() ? std::move(all) : std::move(for_it);
  const std::size_t count = shown.size();
  shown.resize(std::min(count, kMaxStatuses));
  if (count > kMaxStatuses) shown.push_back(std::to_string(count - kMaxStatuses) + " more");
  return join(shown, ", ");
}

JobFailure LineTable::failure_of(const Line& line, const std::string& how,
                                 const std::string& remedy) const {
  const Error error(ErrorKind::kPeer, {.what = line.name + " " + how,
                                       .where = statuses_waiting_for(line.ranks, line.process),
                                       .remedy = remedy});
  return {.process = line.process,
          .rank = line.ranks.size() == 1 ? line.ranks.front() : -1,
          .kind = error.kind(),
          .message = error.what(),
          .teller = std::max(0, lowest_alive(line.process))};
}

}  // namespace sluice
