#include "engine/flight_recorder.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/content_hash.h"
#include "base/format.h"
#include "base/text.h"
#include "plan/action_kinds.h"
#include "plan/neighbours.h"

namespace sluice {
namespace {

constexpr std::size_t kShown = 256;

constexpr std::array kGridAxes = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp,
                                  Axis::kTp};

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return bytes;
}

double in_seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string fingerprint_of(const Program& program) {
  static_assert(std::has_unique_object_representations_v<Action>);
  ContentHash hash;
  for (const std::vector<Action>& row : program.ranks) {
    const std::uint64_t size = row.size();
    hash.add(&size, sizeof size);
    hash.add(row.data(), row.size() * sizeof(Action));
  }
  for (int stage = 0; stage < program.num_stages(); ++stage) {
    const std::int32_t rank = program.stage_map.rank_of(stage);
    hash.add(&rank, sizeof rank);
  }
  return hash.digits();
}

bool ended(FlightState state) {
  return state == FlightState::kDone || state == FlightState::kFailed;
}

}  // namespace

std::shared_ptr<const FlightRecorder::Row> FlightRecorder::make_row(const Program& program,
                                                                    int rank) {
  const auto row = std::make_shared<Row>();
  row->program = &program;
  row->actions = program.ranks.front().data();
  row->rank = rank;
  // A program written by hand may lack a mesh.
  const bool has_mesh = program.mesh.size(Axis::kPp) == program.num_ranks();
  const int own = has_mesh ? program.mesh.coordinate(rank, Axis::kPp) : rank;
  row->num_ranks = has_mesh ? program.mesh.num_ranks() : program.num_ranks();
  std::vector<int> pipeline;
  if (has_mesh) {
    pipeline = program.mesh.group(rank, Axis::kPp);
    for (std::size_t axis = 0; axis < kGridAxes.size(); ++axis)
      row->coordinates[axis] = program.mesh.coordinate(rank, kGridAxes[axis]);
  } else {
    for (int at = 0; at < program.num_ranks(); ++at) pipeline.push_back(at);
    row->coordinates[0] = rank;
  }
  row->instructions = program.ranks.at(own);
  for (const Action& action : row->instructions) {
    const int stage = is_transfer(action.kind) ? detail::peer_stage(program, action) : Flow::kNone;
    const int peer = stage == Flow::kNone ? -1 : program.stage_map.rank_of(stage);
    row->peers.push_back(peer < 0 ? -1 : pipeline.at(peer));
    row->counterparts.push_back(peer < 0 ? Action() : detail::counterpart(program, action));
  }
  row->fingerprint = fingerprint_of(program);
  row->forward_only = program.forward_only;
  row->num_microbatches = program.num_microbatches;
  for (int stage = 0; stage < program.num_stages(); ++stage) {
    if (program.stage_map.rank_of(stage) == own) row->stages.push_back(stage);
  }
  return row;
}

bool FlightRecorder::is_row_of(const Program& program, int rank) const {
  return row_ && row_->program == &program && row_->actions == program.ranks.front().data() &&
         row_->rank == rank && row_->num_microbatches == program.num_microbatches &&
         row_->forward_only == program.forward_only;
}

void FlightRecorder::begin_program(const Program& program, int rank) {
  const std::lock_guard lock(mutex_);
  if (!is_row_of(program, rank)) row_ = make_row(program, rank);
}

void FlightRecorder::begin_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  ++pass_;
  step_ = step;
  in_pass_ = true;
  posted_.clear();
}

void FlightRecorder::end_step() {
  const std::lock_guard lock(mutex_);
  in_pass_ = false;
}

void FlightRecorder::begin(int index, const Action& action) {
  const std::lock_guard lock(mutex_);
  ++count_;
  Entry& entry = current();
  entry = Entry();
  entry.pass = pass_;
  entry.step = step_;
  entry.index = index;
  entry.action = action;
  entry.start = Clock::now();
}

// Returns the posts (asynchronous instructions) that `user` waits for. Without posts, a compute
// action waits for a message.
std::vector<Action> FlightRecorder::awaited(const Action& user) {
  std::vector<Action> used, rest;
  for (const Action& post : posted_)
    (detail::uses(*row_->program, user, post) ? used : rest).push_back(post);
  posted_ = std::move(rest);
  if (!used.empty()) return used;
  // the last instruction waits for all
  if (!is_compute(user.kind)) return std::exchange(posted_, {});
  const bool forward = user.kind == ActionKind::kForward;
  return {Action::make(forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward, user.stage,
                       user.microbatch)};
}

void FlightRecorder::waiting(const Action& action) {
  const std::lock_guard lock(mutex_);
  wait();
  if (row_) current().waits_for = awaited(action);
}

void FlightRecorder::wait() {
  current().state = FlightState::kWaiting;
  current().wait_start = Clock::now();
}

void FlightRecorder::go_on() {
  Entry& entry = current();
  entry.state = FlightState::kRunning;
  const Clock::duration waited = Clock::now() - entry.wait_start;
  entry.waited += waited;
  last_wait_ = in_seconds(waited);
}

void FlightRecorder::arrived(const Action& /*action*/, const std::vector<at::Tensor>& tensors) {
  const std::lock_guard lock(mutex_);
  go_on();
  current().waits_for.clear();
  current().bytes += bytes_of(tensors);
}

// Does not record a wait that waiting() has already recorded.
void FlightRecorder::waiting_for_members(const Action& /*action*/, const std::string& call,
                                         const std::function<std::vector<int>()>& missing) {
  const std::lock_guard lock(mutex_);
  Entry& entry = current();
  last_wait_ = 0;
  if (entry.state == FlightState::kWaiting) return;
  wait();
  entry.call = call;
  entry.missing = missing;
}

void FlightRecorder::members_came(const Action& /*action*/) {
  const std::lock_guard lock(mutex_);
  Entry& entry = current();
  if (!entry.missing) return;
  go_on();
  entry.call.clear();
  entry.missing = nullptr;
}

void FlightRecorder::sending(const Action& /*action*/, const std::vector<at::Tensor>& tensors) {
  const std::lock_guard lock(mutex_);
  current().bytes += bytes_of(tensors);
}

void FlightRecorder::end(int /*index*/, const Action& action) {
  const std::lock_guard lock(mutex_);
  stop(FlightState::kDone);
  if (is_post(action.kind)) posted_.push_back(action);
}

void FlightRecorder::failed(int /*index*/, const Action& /*action*/) noexcept {
  const std::lock_guard lock(mutex_);
  stop(FlightState::kFailed);
}

void FlightRecorder::stop(FlightState state) {
  Entry& entry = current();
  entry.stop = Clock::now();
  if (entry.state == FlightState::kWaiting) entry.waited += entry.stop - entry.wait_start;
  if (entry.missing) entry.were_missing = std::exchange(entry.missing, nullptr)();
  entry.state = state;
  last_seconds_ = in_seconds(entry.stop - entry.start);
}

FlightEntry FlightRecorder::entry_of(const Entry& entry, Clock::time_point now, double wall) const {
  FlightEntry result;
  result.pass = entry.pass;
  result.step = entry.step;
  result.index = entry.index;
  result.action = to_text(entry.action);
  result.state = entry.state;
  result.start = wall - in_seconds(now - entry.start);
  result.seconds = in_seconds((ended(entry.state) ? entry.stop : now) - entry.start);
  const bool waits = entry.state == FlightState::kWaiting;
  result.waited = in_seconds(entry.waited + (waits ? now - entry.wait_start : Clock::duration()));
  result.bytes = entry.bytes;
  const auto index = static_cast<std::size_t>(entry.index);
  if (row_ && entry.pass == pass_ && index < row_->peers.size()) result.peer = row_->peers[index];
  for (const Action& action : entry.waits_for) result.waits_for.push_back(to_text(action));
  result.call = entry.call;
  result.missing = entry.missing ? entry.missing() : entry.were_missing;
  return result;
}

std::string FlightRecorder::text() const {
  const std::lock_guard lock(mutex_);
  static constexpr const char* kStates[] = {"running", "waiting", "done", "FAILED"};
  std::string lines;
  const std::size_t kept = std::min({count_, entries_.size(), kShown});
  for (std::size_t i = count_ - kept; i < count_; ++i) {
    const Entry& entry = entries_[i % entries_.size()];
    const double ms =
        1000 * in_seconds((ended(entry.state) ? entry.stop : Clock::now()) - entry.start);
    char line[160];
    std::snprintf(line, sizeof line, "step %lld  #%-5d %-28s %-8s %10.3f ms %12lld bytes\n",
                  static_cast<long long>(entry.step), entry.index, to_text(entry.action).c_str(),
                  kStates[static_cast<int>(entry.state)], ms, static_cast<long long>(entry.bytes));
    lines += line;
  }
  return lines;
}

FlightRecord FlightRecorder::record() const {
  const std::lock_guard lock(mutex_);
  FlightRecord record;
  const Clock::time_point now = Clock::now();
  record.written =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  record.pass = pass_;
  record.step = step_;
  record.in_pass = in_pass_;
  if (row_) {
    record.rank = row_->rank;
    record.num_ranks = row_->num_ranks;
    record.coordinates = row_->coordinates;
    record.stages = row_->stages;
    record.row.fingerprint = row_->fingerprint;
    record.row.forward_only = row_->forward_only;
    record.row.num_microbatches = row_->num_microbatches;
    record.row.peers = row_->peers;
    for (const Action& action : row_->instructions)
      record.row.instructions.push_back(to_text(action));
    for (const Action& action : row_->counterparts)
      record.row.counterparts.push_back(to_text(action));
  }
  const std::size_t kept = std::min(count_, entries_.size());
  for (std::size_t i = count_ - kept; i < count_; ++i)
    record.entries.push_back(entry_of(entries_[i % entries_.size()], now, record.written));
  return record;
}

std::optional<RunningAction> FlightRecorder::running() const {
  const std::lock_guard lock(mutex_);
  if (!in_pass_ || count_ == 0) return std::nullopt;
  const Entry& entry = entries_[(count_ - 1) % entries_.size()];
  if (entry.state != FlightState::kRunning) return std::nullopt;
  return RunningAction{entry.pass, entry.step, entry.index, entry.action};
}

std::vector<std::pair<Action, double>> FlightRecorder::computed() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<Action, double>> seconds;
  const std::size_t kept = std::min(count_, entries_.size());
  for (std::size_t i = 0; i < kept; ++i) {
    const Entry& entry = entries_[i];
    if (entry.state == FlightState::kDone)
      seconds.emplace_back(entry.action, in_seconds(entry.stop - entry.start - entry.waited));
  }
  return seconds;
}

std::string FlightRecorder::now() const {
  const std::lock_guard lock(mutex_);
  if (!in_pass_ || count_ == 0 || !row_) return {};
  const Entry& entry = entries_[(count_ - 1) % entries_.size()];
  std::string text = formatted("rank {}, step {}", row_->rank, step_);
  if (entry.pass != pass_) return text + ", starts";
  const FlightEntry last = entry_of(entry, Clock::now(), 0);
  text += formatted(", instruction {} '{}', ", entry.index, last.action);
  if (!last.call.empty()) {
    return formatted("{}{} s in {}", text + (ended(entry.state) ? "waited " : "waits "),
                     fixed(last.waited, 1), waited_call(last));
  }
  if (last.waits_for.empty())
    return formatted("{}{} for {} s", text, to_text(last.state), fixed(last.seconds, 1));
  text += formatted("{}{} s for {}", ended(entry.state) ? "waited " : "waits ",
                    fixed(last.waited, 1), join(last.waits_for, ", "));
  const auto receive =
      std::find(row_->instructions.begin(), row_->instructions.end(), entry.waits_for.front());
  const int peer =
      receive == row_->instructions.end()
          ? -1
          : row_->peers[static_cast<std::size_t>(receive - row_->instructions.begin())];
  return peer < 0 ? text : formatted("{} from rank {}", text, peer);
}

}  // namespace sluice
