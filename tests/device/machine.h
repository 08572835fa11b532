// The memory of the simulated devices: who wrote and read which memory, and what that waited for.
//
// A stream, and the host on behalf of a device, is a place with a vector clock: for every stream,
// how much of it has happened before now. A launch joins the clock of the host and counts up the
// clock of its stream; an event is a copy of a clock; a stream that waits for an event joins it, as
// the host does that synchronizes. An access is behind another when the clock of its stream does
// not include it: a race.
//
// Owns: clocks, blocks of device memory with their last accesses, copies that are pending. Does not
// own: tensors.
//
// Invariants:
//  1. Freed memory holds poison, and so does pinned memory to which a copy is pending.
//  2. Memory may be freed while another stream may use it only after record_stream for that stream.
// Thread-safety: any thread; the host's clock is one for all threads whose current device it is:
// a rank's, its engine's and its wire's, which hand over to each other.
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

using StreamName = std::pair<int, std::int64_t>;  // device, number; 0: the default one
using Clock = std::map<StreamName, std::uint64_t>;

// The thread's current device and streams.
struct Here {
  int device = 0;
  std::array<std::int64_t, kNumDevices> streams{};
};
extern thread_local Here here;
inline StreamName current_stream(int device) {
  return {device, here.streams[static_cast<std::size_t>(device)]};
}

// A stream as what has no streams of LibTorch's gets it.
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

  // Held over a launch and its accesses.
  std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(mutex_); }

  Launch launch(StreamName stream);
  void access(const Launch& launch, const void* memory, bool writes, const std::string& operation);
  // The stream goes on only after all that the clock has.
  void wait(StreamName stream, const Clock& clock);
  void host_waits(const Clock& clock);
  // Somebody who has asked whether that is over says so: with the reference to a tensor that is let
  // go then, whoever has another one learns it.
  void all_know(const Clock& clock);
  // A launch that ends only when somebody says so: nothing behind it on its stream has happened
  // until then.
  void begin(const Launch& launch) { under_way_[launch.stream].insert(launch.time); }
  void end(const Launch& launch) { under_way_[launch.stream].erase(launch.time); }
  bool has_happened(const Clock& clock) const;
  // Copies that wait for what has happened. What the thread that asks learns is not known to the
  // host's other threads.
  void carry_out(const Clock& clock);
  bool is_allocated(const void* memory) const;
  Clock clock_of(StreamName stream);
  Clock clock_of_device(int device);
  // Carried out when the host knows that `launch` is done.
  void when_done(const Launch& launch, std::function<void()> run);

  char* allocate(int device, std::size_t bytes);
  void free(void* memory);
  void record_stream(const void* memory, StreamName stream);
  void add_pinned(void* memory, std::size_t bytes);
  void free_pinned(void* memory);
  bool is_pinned(const void* memory);
  std::int64_t new_stream() { return next_stream_++; }

  // True if this call is the one to be left out.
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
