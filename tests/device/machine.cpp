#include "device/machine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/format.h"

namespace sluice::sim {
namespace {

void join(Clock& clock, const Clock& other) {
  for (const auto& [stream, time] : other) clock[stream] = std::max(clock[stream], time);
}

bool reaches(const Clock& clock, StreamName stream, std::uint64_t time) {
  const auto found = clock.find(stream);
  return found != clock.end() && found->second >= time;
}

std::string text_of(StreamName stream) {
  return formatted("stream {} of device {}", stream.second, stream.first);
}

}  // namespace

thread_local Here here;

// Never freed, because LibTorch's threads may free memory while the process exits.
Machine& Machine::get() {
  static auto* const machine = new Machine;
  return *machine;
}

bool Machine::includes(const Clock& clock, const Access& access) const {
  return reaches(clock, access.stream, access.time);
}

void Machine::race(std::string text) { races_.insert(std::move(text)); }

Launch Machine::launch(StreamName stream) {
  Clock& clock = clocks_[stream];
  join(clock, host_[here.device]);
  return {stream, ++clock[stream]};
}

void Machine::access(const Launch& launch, const void* memory, bool writes,
                     const std::string& operation) {
  const auto* const address = static_cast<const char*>(memory);
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return;
  Block& block = (--found)->second;
  if (address >= found->first + std::max<std::size_t>(block.bytes, 1)) return;
  const Clock& clock = clocks_[launch.stream];
  if (block.write && !includes(clock, *block.write)) {
    race(formatted("{} on {} does not wait for the write by {} on {}", operation,
                   text_of(launch.stream), block.write->operation, text_of(block.write->stream)));
  }
  if (!writes) {
    block.reads[launch.stream] = {launch.stream, launch.time, operation};
    return;
  }
  for (const auto& [stream, read] : block.reads) {
    if (includes(clock, read)) continue;
    race(formatted("{} on {} writes without waiting for the read by {} on {}", operation,
                   text_of(launch.stream), read.operation, text_of(stream)));
  }
  block.reads.clear();
  block.write = Access{launch.stream, launch.time, operation};
}

void Machine::wait(StreamName stream, const Clock& clock) { join(clocks_[stream], clock); }

bool Machine::has_happened(const Clock& clock) const {
  return std::none_of(under_way_.begin(), under_way_.end(), [&](const auto& launches) {
    const auto& [stream, times] = launches;
    return !times.empty() && reaches(clock, stream, *times.begin());
  });
}

bool Machine::is_allocated(const void* memory) const {
  const auto* const address = static_cast<const char*>(memory);
  auto found = blocks_.upper_bound(address);
  return found != blocks_.begin() && address < (--found)->first + found->second.bytes;
}

void Machine::host_waits(const Clock& clock) {
  if (!has_happened(clock)) race("the host waits for a transfer in which nobody takes part");
  join(host_[here.device], clock);
  carry_out(clock);
}

void Machine::all_know(const Clock& clock) {
  for (int device = 0; device < kNumDevices; ++device) join(host_[device], clock);
}

void Machine::carry_out(const Clock& clock) {
  std::vector<Pending> later;
  for (Pending& pending : pending_) {
    if (reaches(clock, pending.launch.stream, pending.launch.time))
      pending.run();
    else
      later.push_back(std::move(pending));
  }
  pending_ = std::move(later);
}

Clock Machine::clock_of(StreamName stream) { return clocks_[stream]; }

Clock Machine::clock_of_device(int device) {
  Clock all;
  for (const auto& [stream, clock] : clocks_)
    if (stream.first == device) join(all, clock);
  return all;
}

void Machine::when_done(const Launch& launch, std::function<void()> run) {
  pending_.push_back({launch, std::move(run)});
}

char* Machine::allocate(int device, std::size_t bytes) {
  constexpr std::size_t kAlignment = 512;
  const std::size_t room = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment;
  auto* const memory = static_cast<char*>(std::aligned_alloc(kAlignment, room * kAlignment));
  std::memset(memory, kPoison, room * kAlignment);
  const auto guard = lock();
  blocks_[memory] = {.bytes = bytes, .home = current_stream(device)};
  auto& live = live_[static_cast<std::size_t>(device)];
  live += static_cast<std::int64_t>(bytes);
  auto& peak = peak_[static_cast<std::size_t>(device)];
  peak = std::max(peak, live);
  return memory;
}

void Machine::free(void* memory) {
  const auto guard = lock();
  const auto found = blocks_.find(static_cast<char*>(memory));
  const Block& block = found->second;
  Clock clock = clocks_[block.home];
  join(clock, host_[block.home.first]);
  const auto is_loose = [&](const Access& access) {
    return !block.recorded.contains(access.stream) && !includes(clock, access);
  };
  const auto tell = [&](const Access& access, const char* how) {
    race(formatted("memory of {} is freed while {} on {} may {} it: no record_stream",
                   text_of(block.home), access.operation, text_of(access.stream), how));
  };
  for (const auto& [stream, read] : block.reads)
    if (stream != block.home && is_loose(read)) tell(read, "read");
  if (block.write && block.write->stream != block.home && is_loose(*block.write))
    tell(*block.write, "write");
  live_[static_cast<std::size_t>(block.home.first)] -= static_cast<std::int64_t>(block.bytes);
  std::memset(memory, kPoison, block.bytes);
  blocks_.erase(found);
  std::free(memory);
}

void Machine::record_stream(const void* memory, StreamName stream) {
  const auto guard = lock();
  if (skips(Call::kRecord)) return;
  const auto found = blocks_.find(static_cast<const char*>(memory));
  if (found != blocks_.end()) found->second.recorded.insert(stream);
}

void Machine::add_pinned(void* memory, std::size_t bytes) {
  const auto guard = lock();
  pinned_[static_cast<char*>(memory)] = bytes;
}

// Forgets the memory, so that a pending copy does not write to it after it has a new owner.
void Machine::free_pinned(void* memory) {
  const auto guard = lock();
  pinned_.erase(static_cast<char*>(memory));
}

bool Machine::is_pinned(const void* memory) {
  const auto guard = lock();
  const auto* const address = static_cast<const char*>(memory);
  auto found = pinned_.upper_bound(address);
  if (found == pinned_.begin()) return false;
  --found;
  return address < found->first + std::max<std::size_t>(found->second, 1);
}

bool Machine::skips(Call call) {
  std::int64_t& calls = call == Call::kWait     ? counts_.waits
                        : call == Call::kRecord ? counts_.records
                                                : counts_.synchronized;
  const std::int64_t number = calls++;
  return forgotten_ && forgotten_->first == call && forgotten_->second == number;
}

std::vector<std::string> Machine::take_races() {
  const auto guard = lock();
  std::vector<std::string> races(races_.begin(), races_.end());
  races_.clear();
  return races;
}

Counts Machine::counts() {
  const auto guard = lock();
  return counts_;
}

void Machine::reset_counts() {
  const auto guard = lock();
  counts_ = {};
}

void Machine::forget(std::optional<std::pair<Call, std::int64_t>> call) {
  const auto guard = lock();
  forgotten_ = call;
}

std::pair<std::int64_t, std::int64_t> Machine::bytes(int device, bool reset_peak) {
  const auto guard = lock();
  const auto index = static_cast<std::size_t>(device);
  if (reset_peak) peak_[index] = live_[index];
  return {live_[index], peak_[index]};
}

// ---- queries of tests ----

std::vector<std::string> take_races() { return Machine::get().take_races(); }
Counts counts() { return Machine::get().counts(); }
void reset_counts() { Machine::get().reset_counts(); }
void forget(Call call, std::int64_t n) { Machine::get().forget(std::pair(call, n)); }
void forget_nothing() { Machine::get().forget(std::nullopt); }

std::int64_t live_bytes() {
  std::int64_t all = 0;
  for (int device = 0; device < kNumDevices; ++device) all += Machine::get().bytes(device).first;
  return all;
}

}  // namespace sluice::sim
