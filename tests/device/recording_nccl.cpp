#include "device/recording_nccl.h"

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/format.h"
#include "device/machine.h"

namespace sluice::sim {
namespace {

using nccl::Comm;
using nccl::Result;

struct Pair;

struct End {
  std::shared_ptr<Pair> pair;
  int number = 0;  // 0 sends, 1 receives
  int device = 0;
  Result state = nccl::kInProgress;
  bool is_over = false;
  StreamName stream{-1, 0};
};

struct Sent {
  std::string bytes;
  Launch launch;
  Clock clock;
};
struct Wanted {
  void* memory;
  std::size_t bytes;
  Launch launch;
};

struct Pair {
  std::array<End*, 2> ends{};
  std::deque<Sent> sent;
  std::deque<Wanted> wanted;
  std::vector<Launch> lost;  // sends that never complete
  bool is_connected = false;
};

struct Given {
  End* end;
  const void* read;
  void* written;
  std::size_t bytes;
  StreamName stream;
};

struct Recording {
  std::recursive_mutex mutex;
  NcclScript script;
  NcclCounts counts;
  std::vector<std::string> faults;
  std::map<std::string, std::int64_t> calls;
  std::map<std::string, std::shared_ptr<Pair>> pairs;
  std::vector<std::unique_ptr<End>> ends;     // kept to detect late calls
  std::vector<std::unique_ptr<End>> earlier;  // of earlier recordings, whose links may be alive
  std::map<StreamName, End*> streams;
  std::int64_t next_id = 0;

  void fault(std::string text) { faults.push_back(std::move(text)); }
  bool fails(const std::string& function) {
    return calls[function]++ == script.call && script.function == function;
  }
};

Recording& recording() {
  static auto* const made = new Recording;
  return *made;
}

thread_local int group_depth = 0;
thread_local std::vector<Given> group;

std::string text_of(const End& end) {
  return formatted("end {} on device {}", end.number, end.device);
}

End* end_of(Comm comm, const char* call) {
  auto* const end = static_cast<End*>(comm);
  if (end->is_over)
    recording().fault(formatted("{} for a communicator that has ended, {}", call, text_of(*end)));
  return end;
}

void match(Pair& pair) {
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  while (!pair.sent.empty() && !pair.wanted.empty()) {
    const Sent sent = std::move(pair.sent.front());
    const Wanted wanted = pair.wanted.front();
    pair.sent.pop_front();
    pair.wanted.pop_front();
    if (sent.bytes.size() != wanted.bytes) {
      recording().fault(
          formatted("{} bytes are sent and {} received", sent.bytes.size(), wanted.bytes));
    }
    machine.wait(wanted.launch.stream, sent.clock);
    machine.access(wanted.launch, wanted.memory, true, "ncclRecv");
    // The memory of an abandoned receive may be freed already.
    if (machine.is_allocated(wanted.memory))
      std::memcpy(wanted.memory, sent.bytes.data(), std::min(sent.bytes.size(), wanted.bytes));
    machine.end(sent.launch);
    recording().counts.bytes += static_cast<std::int64_t>(wanted.bytes);
    pair.is_connected = true;
  }
  const bool is_open = !pair.is_connected && !pair.sent.empty();
  for (End* const end : pair.ends) {
    if (!end || end->state != nccl::kInProgress) continue;
    if (end->number == 0 ? !is_open : pair.wanted.empty()) end->state = nccl::kSuccess;
  }
}

Result give(const Given& given) {
  Recording& here_now = recording();
  End& end = *given.end;
  const bool sends = given.read != nullptr;
  if (sends != (end.number == 0)) here_now.fault(text_of(end) + " goes the wrong way");
  const auto [owner, is_new] = here_now.streams.try_emplace(given.stream, &end);
  if (owner->second != &end || (end.stream.first >= 0 && end.stream != given.stream))
    here_now.fault("two communicators share a stream, or one has two: " + text_of(end));
  end.stream = given.stream;
  if (given.stream.first != end.device) here_now.fault(text_of(end) + ": another device's stream");
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  const Launch launch = machine.launch(given.stream);
  if (sends) {
    ++here_now.counts.sends;
    machine.access(launch, given.read, false, "ncclSend");
    machine.begin(launch);
    if (here_now.fails("lost")) {
      end.pair->lost.push_back(launch);
      return nccl::kSuccess;
    }
    end.pair->sent.push_back({std::string(static_cast<const char*>(given.read), given.bytes),
                              launch, machine.clock_of(given.stream)});
    if (!end.pair->is_connected) end.state = nccl::kInProgress;
  } else {
    ++here_now.counts.receives;
    end.pair->wanted.push_back({given.written, given.bytes, launch});
    end.state = nccl::kInProgress;
  }
  return nccl::kSuccess;
}

Result queue(const char* call, const void* read, void* written, std::size_t bytes, int peer,
             Comm comm, nccl::Stream stream) {
  Recording& here_now = recording();
  const std::lock_guard lock(here_now.mutex);
  End& end = *end_of(comm, call);
  if (group_depth == 0) here_now.fault(std::string(call) + " outside of a group");
  if (end.state == nccl::kInProgress)
    here_now.fault(formatted("{} for a communicator in progress, {}", call, text_of(end)));
  if (peer != 1 - end.number) here_now.fault(std::string(call) + " for itself");
  if (here_now.fails(call)) return here_now.script.result;
  group.push_back({&end, read, written, bytes, stream_of_handle(stream)});
  return nccl::kSuccess;
}

Result end_group() {
  Recording& here_now = recording();
  const std::lock_guard lock(here_now.mutex);
  if (--group_depth > 0) return nccl::kSuccess;
  const std::vector<Given> given = std::exchange(group, {});
  if (here_now.fails("ncclGroupEnd")) return here_now.script.result;
  for (const Given& each : given) {
    give(each);
    match(*each.end->pair);
    if (here_now.fails("async")) each.end->state = here_now.script.result;
  }
  for (const Given& each : given) {
    if (each.end->state == nccl::kInProgress) return nccl::kInProgress;
  }
  return nccl::kSuccess;
}

Result init(Comm* comm, int num_ranks, const nccl::UniqueId& id, int rank) {
  Recording& here_now = recording();
  const std::lock_guard lock(here_now.mutex);
  if (num_ranks != 2 || group_depth > 0) here_now.fault("a communicator that is not of two");
  if (here_now.fails("ncclCommInitRankConfig")) return here_now.script.result;
  std::shared_ptr<Pair>& pair = here_now.pairs[std::string(id.bytes.data(), id.bytes.size())];
  if (!pair) pair = std::make_shared<Pair>();
  auto made = std::make_unique<End>();
  made->pair = pair;
  made->number = rank;
  made->device = here.device;
  if (pair->ends[static_cast<std::size_t>(rank)]) here_now.fault("two are the same end");
  pair->ends[static_cast<std::size_t>(rank)] = made.get();
  *comm = made.get();
  ++here_now.counts.communicators;
  here_now.ends.push_back(std::move(made));
  if (!pair->ends[0] || !pair->ends[1]) return nccl::kInProgress;
  const bool is_alike = pair->ends[0]->device == pair->ends[1]->device;
  for (End* const end : pair->ends)
    end->state = is_alike && !here_now.script.one_device ? nccl::kInvalidUsage : nccl::kSuccess;
  return pair->ends[0]->state;
}

void end(End& over) {
  Pair& pair = *over.pair;
  const auto lock = Machine::get().lock();
  if (over.number == 0) {
    for (const Sent& sent : pair.sent) Machine::get().end(sent.launch);
    for (const Launch& lost : pair.lost) Machine::get().end(lost);
    recording().counts.unmatched += static_cast<std::int64_t>(pair.sent.size() + pair.lost.size());
    pair.sent.clear();
  } else {
    pair.wanted.clear();
  }
  pair.ends[static_cast<std::size_t>(over.number)] = nullptr;
  over.is_over = true;
  recording().streams.erase(over.stream);
}

Result get_async_error(Comm comm, Result* error) {
  const std::lock_guard lock(recording().mutex);
  *error = end_of(comm, "ncclCommGetAsyncError")->state;
  return nccl::kSuccess;
}

constexpr nccl::Table kRecording = {
    .compiled_version = 22907,
    .get_version =
        [](int* version) {
          *version = recording().script.version;
          return nccl::kSuccess;
        },
    .get_unique_id =
        [](nccl::UniqueId* id) {
          const std::lock_guard lock(recording().mutex);
          if (recording().fails("ncclGetUniqueId")) return recording().script.result;
          *id = {};
          const std::int64_t number = ++recording().next_id;
          std::memcpy(id->bytes.data(), &number, sizeof number);
          return nccl::kSuccess;
        },
    .comm_init_rank = &init,
    .comm_finalize =
        [](Comm comm) {
          const std::lock_guard lock(recording().mutex);
          End& over = *end_of(comm, "ncclCommFinalize");
          const Pair& pair = *over.pair;
          if (over.state != nccl::kSuccess || (over.number == 0 && !pair.sent.empty()))
            recording().fault("a communicator is finalized while a transfer waits");
          ++recording().counts.finalized;
          return nccl::kSuccess;
        },
    .comm_destroy =
        [](Comm comm) {
          const std::lock_guard lock(recording().mutex);
          end(*end_of(comm, "ncclCommDestroy"));
          ++recording().counts.destroyed;
          return nccl::kSuccess;
        },
    .comm_abort =
        [](Comm comm) {
          const std::lock_guard lock(recording().mutex);
          end(*end_of(comm, "ncclCommAbort"));
          ++recording().counts.aborted;
          return nccl::kSuccess;
        },
    .get_async_error = &get_async_error,
    .group_start =
        [] {
          ++group_depth;
          const std::lock_guard lock(recording().mutex);
          ++recording().counts.groups;
          return nccl::kSuccess;
        },
    .group_end = &end_group,
    .send =
        [](const void* bytes, std::size_t num_bytes, int peer, Comm comm, nccl::Stream stream) {
          return queue("ncclSend", bytes, nullptr, num_bytes, peer, comm, stream);
        },
    .receive =
        [](void* bytes, std::size_t num_bytes, int peer, Comm comm, nccl::Stream stream) {
          return queue("ncclRecv", nullptr, bytes, num_bytes, peer, comm, stream);
        },
    .error_text =
        [](Result result) {
          return result == nccl::kRemoteError ? "remote process exited or there was a network error"
                 : result == nccl::kInvalidUsage ? "invalid usage"
                 : result == nccl::kSystemError  ? "unhandled system error"
                                                 : "another error";
        },
};

}  // namespace

const nccl::Table& recording_nccl() { return kRecording; }

void start_recording(const NcclScript& script) {
  Recording& here_now = recording();
  const std::lock_guard lock(here_now.mutex);
  here_now.script = script;
  here_now.counts = {};
  here_now.faults.clear();
  here_now.calls.clear();
  here_now.pairs.clear();
  for (auto& end : here_now.ends) here_now.earlier.push_back(std::move(end));
  here_now.ends.clear();
  here_now.streams.clear();
}

NcclCounts nccl_counts() {
  const std::lock_guard lock(recording().mutex);
  return recording().counts;
}

std::vector<std::string> nccl_faults() {
  Recording& here_now = recording();
  const std::lock_guard lock(here_now.mutex);
  std::vector<std::string> faults = here_now.faults;
  for (const auto& end : here_now.ends) {
    if (!end->is_over) faults.push_back("a communicator is left behind, " + text_of(*end));
  }
  if (group_depth != 0) faults.emplace_back("a group is left open");
  return faults;
}

}  // namespace sluice::sim
