#include "comm/process_ranks.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/places.h"
#include "base/text.h"

namespace sluice {
namespace {

const char* const kWorld = "world";

}  // namespace

std::string process_text(int process, int num_processes, int num_ranks) {
  const int each = num_ranks / num_processes;
  std::vector<int> ranks;
  for (int rank = process * each; rank < (process + 1) * each; ++rank) ranks.push_back(rank);
  return formatted("process {} ({})", process, ranks_text(ranks));
}

ArrivedMessage ArrivedMessages::take(std::uint64_t number) {
  std::optional<ArrivedMessage>& slot = messages[number - first];
  ArrivedMessage message = std::move(*slot);
  slot.reset();
  while (!messages.empty() && !messages.front()) {
    messages.pop_front();
    ++first;
  }
  return message;
}

ProcessRanks::ProcessRanks(ProcessRanksOptions options)
    : options_(std::move(options)),
      ranks_per_process_(options_.num_ranks / options_.num_processes) {
  inboxes_.resize(static_cast<std::size_t>(ranks_per_process_));
  std::vector<int> all(static_cast<std::size_t>(options_.num_ranks));
  std::iota(all.begin(), all.end(), 0);
  world_ = &group(kWorld, all);
}

// link_ is destroyed first, because its threads use the other members.
ProcessRanks::~ProcessRanks() = default;

void ProcessRanks::connect(std::unique_ptr<Link> link) {
  link_ = std::move(link);
  link_->start(*this);
}

std::vector<int> ProcessRanks::ranks_here() const {
  std::vector<int> ranks(static_cast<std::size_t>(ranks_per_process_));
  std::iota(ranks.begin(), ranks.end(), options_.process * ranks_per_process_);
  return ranks;
}

at::Device ProcessRanks::device_of(int rank) const {
  if (options_.devices.empty()) return at::kCPU;
  return options_.devices[static_cast<std::size_t>(rank - options_.process * ranks_per_process_)];
}

// A message needs the device of its destination rank. A collective's tensors are shared by all
// ranks of this process, so the first rank's device will do.
at::Device ProcessRanks::device_for(const FrameHead& head) const {
  const auto* message = std::get_if<MessageHead>(&head);
  return device_of(message ? message->destination : options_.process * ranks_per_process_);
}

std::string ProcessRanks::name_of(int process) const {
  return process_text(process, options_.num_processes, options_.num_ranks);
}

Inbox& ProcessRanks::inbox_of(int rank) {
  return inboxes_[rank - options_.process * ranks_per_process_];
}

void ProcessRanks::send(int source, int destination, ChannelKind kind, Message message) {
  if (process_of(destination) == options_.process) {
    put(source, destination, kind, std::move(message));
    return;
  }
  failure_.throw_if_happened();
  link_->send(process_of(destination),
              {MessageHead{source, destination, kind, message.tag}, std::move(message.tensors)});
}

void ProcessRanks::put(int source, int destination, ChannelKind kind, Message message) {
  Ready ready = ready_now(message.tensors);
  Inbox& inbox = inbox_of(destination);
  {
    const std::lock_guard lock(inbox.mutex);
    failure_.throw_if_happened();
    inbox.channels[{source, kind}].messages.emplace_back(
        ArrivedMessage{std::move(message), std::move(ready)});
  }
  inbox.arrived.notify_one();
}

void ProcessRanks::send_to_process(int process, Frame frame) {
  link_->send(process, std::move(frame));
}

GroupState& ProcessRanks::group(const std::string& id, const std::vector<int>& members) {
  GroupState* state = nullptr;
  std::vector<EarlyFrame> early;
  {
    const std::lock_guard lock(groups_mutex_);
    std::unique_ptr<GroupState>& known = groups_[id];
    if (known) return *known;
    known = std::make_unique<GroupState>(*this, id, members);
    state = known.get();
    if (const auto found = early_.find(id); found != early_.end()) {
      early = std::move(found->second);
      early_.erase(found);
    }
  }
  for (auto& [from, frame, ready] : early) {
    try {
      state->arrive(from, std::get<CollectiveHead>(frame.head), std::move(frame.tensors),
                    std::move(ready));
    } catch (...) {
      wrong(from, std::current_exception());
    }
  }
  return *state;
}

void ProcessRanks::fail(const Failure& failure) noexcept {
  {
    const std::lock_guard lock(failing_mutex_);
    if (failing_) return;
    failing_ = true;
    if (options_.on_failure) {
      try {
        options_.on_failure(failure);
      } catch (...) {
      }
    }
    failure_.set(failure);
  }
  // Lock each mutex once. Otherwise a waiter between its test and its sleep would miss the
  // notification.
  for (Inbox& inbox : inboxes_) {
    {
      const std::lock_guard lock(inbox.mutex);
      for (auto& [source, channel] : inbox.channels) channel.messages.clear();
    }
    inbox.arrived.notify_all();
  }
  {
    const std::lock_guard lock(groups_mutex_);
    early_.clear();
    for (auto& [id, state] : groups_) state->wake();
  }
  if (link_) link_->abort(failure);
}

ProcessRanks::Waiting::Waiting(ProcessRanks& process, std::function<std::string()> text)
    : process_(process) {
  const std::lock_guard lock(process_.waiting_mutex_);
  entry_ = process_.waiting_.emplace(process_.next_waiting_++, std::move(text)).first;
}

ProcessRanks::Waiting::~Waiting() {
  const std::lock_guard lock(process_.waiting_mutex_);
  process_.waiting_.erase(entry_);
}

std::string ProcessRanks::waits() const {
  std::vector<std::string> texts;
  const std::lock_guard lock(waiting_mutex_);
  for (const auto& [number, text] : waiting_) {
    if (std::string now = text(); !now.empty()) texts.push_back(std::move(now));
  }
  return join(texts, ", ");
}

void ProcessRanks::count_as_this_thread() {
  if (num_ranks() == ranks_per_process_ || is_counting_.load()) return;
  const std::lock_guard lock(counting_mutex_);
  if (!is_counting_) counts_as_ = c10::ThreadLocalDebugInfo::current();
  is_counting_ = true;
}

std::shared_ptr<c10::ThreadLocalDebugInfo> ProcessRanks::counts_as() const {
  const std::lock_guard lock(counting_mutex_);
  return counts_as_;
}

void ProcessRanks::check(int from_process, const FrameOutline& outline) const {
  const auto* message = std::get_if<MessageHead>(&outline.head);
  if (!message) return;
  const auto is_at = [&](int rank, int process) {
    return rank >= 0 && rank < options_.num_ranks && process_of(rank) == process;
  };
  if (is_at(message->source, from_process) && is_at(message->destination, options_.process)) return;
  throw Error(ErrorKind::kPeer,
              {.what = formatted("a message header is invalid: a message of rank {} to rank {}",
                                 message->source, message->destination),
               .where = "from " + name_of(from_process)});
}

void ProcessRanks::deliver(int from_process, Frame frame) {
  if (failure_.happened()) return;
  if (const auto* message = std::get_if<MessageHead>(&frame.head)) {
    put(message->source, message->destination, message->kind,
        {message->tag, std::move(frame.tensors)});
    return;
  }
  const auto& collective = std::get<CollectiveHead>(frame.head);
  Ready ready = ready_now(frame.tensors);
  GroupState* state = nullptr;
  {
    const std::lock_guard lock(groups_mutex_);
    const auto found = groups_.find(collective.group);
    if (found == groups_.end()) {
      early_[collective.group].push_back({from_process, std::move(frame), std::move(ready)});
      return;
    }
    state = found->second.get();
  }
  state->arrive(from_process, collective, std::move(frame.tensors), std::move(ready));
}

void ProcessRanks::wrong(int from_process, const std::exception_ptr& error) noexcept {
  if (failure_.happened()) return;
  Failure failure;
  try {
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      failure.kind = known.kind();
      failure.message = known.what();
    } catch (const std::bad_alloc&) {
      failure.kind = ErrorKind::kMemory;
      failure.message =
          Error(ErrorKind::kMemory, {.what = "there is no memory for an arriving message",
                                     .where = "from " + name_of(from_process)})
              .what();
    } catch (const std::exception& other) {
      failure.message =
          Error(ErrorKind::kInternal, {.what = first_line(other.what()).data(),
                                       .where = "receiving from " + name_of(from_process)})
              .what();
    }
  } catch (...) {
    failure.kind = ErrorKind::kMemory;
  }
  fail(failure);
}

void ProcessRanks::lost(int from_process, const std::string& how) noexcept {
  if (failure_.happened()) return;
  Failure failure;
  try {
    std::optional<Failure> cause;
    if (options_.cause) cause = options_.cause();
    if (cause) {
      failure = std::move(*cause);
    } else {
      failure.kind = ErrorKind::kPeer;
      if (ranks_per_process_ == 1) failure.rank = from_process;
      failure.message =
          Error(ErrorKind::kPeer, {.what = "lost the connection to " + name_of(from_process),
                                   .where = "noticed by " + name_of(options_.process) + ": " + how,
                                   .remedy = "find out what ended " + name_of(from_process)})
              .what();
    }
  } catch (...) {
    failure.kind = ErrorKind::kPeer;
  }
  fail(failure);
}

}  // namespace sluice
