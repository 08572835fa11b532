// The memory of the simulated devices. It detects unsynchronized accesses (races) by vector clocks.
//
// Each stream has a vector clock: for every stream, the time up to which its work is known to have
// happened. The host has such a clock for each device. A launch joins the host's clock and advances
// its stream's clock. An event is a copy of a clock. Waiting for an event joins its clock, on a
// stream or on the host. An access whose predecessor is not included in its stream's clock is a
// race.
//
// Freed memory is poisoned, and so is pinned memory with a pending copy. A block that another
// stream may use may only be freed after record_stream for that stream. All functions are
// thread-safe. All threads whose current device is the same share a host clock (a rank's, its
// engine's and its wire's threads), because they synchronize with each other.
#pragma once

#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/simulated_device.h"

namespace sluice::sim {

inline constexpr int kPoison = 0xCD;

using StreamName = std::pair<int, std::int64_t>;  // {device, number}; 0 is the default stream
using Clock = std::map<StreamName, std::uint64_t>;

struct Here {
  int device = 0;
  std::array<std::int64_t, kNumDevices> streams{};
};
extern thread_local Here here;
inline StreamName current_stream(int device) {
  return {device, here.streams[static_cast<std::size_t>(device)]};
}

// The stream as an opaque handle, for code that does not use LibTorch's streams.
inline void* handle_of(StreamName stream) {
  return reinterpret_cast<void*>((static_cast<std::uintptr_t>(stream.first) + 1) << 32U |
                                 static_cast<std::uintptr_t>(stream.second));
}
inline StreamName stream_of_handle(void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  return {static_cast<int>(number >> 32U) - 1, static_cast<std::int64_t>(number & 0xFFFFFFFFU)};
}

struct Launch {
  StreamName stream;
  std::uint64_t time = 0;
};

class Machine {
 public:
  static Machine& get();

  // Hold this lock for a launch and its accesses.
  std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(mutex_); }

  Launch launch(StreamName stream);
  void access(const Launch& launch, const void* memory, bool writes, const std::string& operation);
  // The stream continues after everything that the clock includes.
  void wait(StreamName stream, const Clock& clock);
  void host_waits(const Clock& clock);
  // All devices' host clocks join `clock`. Used when a query finds that work is complete and
  // releases a tensor: the drop of its reference count informs every other thread.
  void all_know(const Clock& clock);
  // A launch that stays in progress until end(). Nothing after it on its stream happens before
  // that.
  void begin(const Launch& launch) { under_way_[launch.stream].insert(launch.time); }
  void end(const Launch& launch) { under_way_[launch.stream].erase(launch.time); }
  bool has_happened(const Clock& clock) const;
  // Carries out the pending copies that the clock includes. Does not update the host clocks,
  // because only the querying thread learns of it.
  void carry_out(const Clock& clock);
  bool is_allocated(const void* memory) const;
  Clock clock_of(StreamName stream);
  Clock clock_of_device(int device);
  // Runs `run` once the host has waited for `launch`.
  void when_done(const Launch& launch, std::function<void()> run);

  char* allocate(int device, std::size_t bytes);
  void free(void* memory);
  void record_stream(const void* memory, StreamName stream);
  void add_pinned(void* memory, std::size_t bytes);
  void free_pinned(void* memory);
  bool is_pinned(const void* memory);
  std::int64_t new_stream() { return next_stream_++; }

  // Whether to skip this call, because a test removes it.
  bool skips(Call call);
  void count_operator() { ++counts_.operators; }
  void count_host_wait(int device) { ++counts_.host_waits[static_cast<std::size_t>(device)]; }

  std::vector<std::string> take_races();
  Counts counts();
  void reset_counts();
  void forget(std::optional<std::pair<Call, std::int64_t>> call);
  std::pair<std::int64_t, std::int64_t> bytes(int device, bool reset_peak = false);

 private:
  struct Access {
    StreamName stream;
    std::uint64_t time = 0;
    std::string operation;
  };
  struct Block {
    std::size_t bytes = 0;
    StreamName home;
    std::optional<Access> write;
    std::map<StreamName, Access> reads;
    std::set<StreamName> recorded;
  };
  struct Pending {
    Launch launch;
    std::function<void()> run;
  };
  bool includes(const Clock& clock, const Access& access) const;
  void race(std::string text);

  std::recursive_mutex mutex_;
  std::map<StreamName, Clock> clocks_;
  std::map<int, Clock> host_;
  std::map<StreamName, std::set<std::uint64_t>> under_way_;
  std::map<const char*, Block> blocks_;
  std::map<const char*, std::size_t> pinned_;
  std::vector<Pending> pending_;
  std::set<std::string> races_;
  Counts counts_;
  std::optional<std::pair<Call, std::int64_t>> forgotten_;
  std::array<std::int64_t, kNumDevices> live_{}, peak_{};
  std::int64_t next_stream_ = 1;
};

}  // namespace sluice::sim
