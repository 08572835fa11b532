// A simulated accelerator: `cuda:0` to `cuda:3` on the ordinary CPU build of LibTorch, with its own
// device type, streams, events, pinned memory, autocast and autograd device threads.
//
// Memory of a device is memory of the host, and operators are LibTorch's CPU kernels, run at once
// in the order of the program. What a GPU may do out of order is found by clocks (machine.h), not
// by luck: a wait that is missing is found in every run, whatever the timing and the number of
// cores. Copies to pinned memory are carried out when the host waits for them; until then there is
// poison.
//
// Owns: what tests ask of it. Does not own: clocks and memory (machine.h), LibTorch's entries
// (backend.cpp, kernels.cpp). Blind to: reads of `data_ptr` by the host, two host threads that race
// (thread sanitizer), real kernels and their atomics, fragmentation, launch errors.
//
// Linked, it takes the place of LibTorch's CUDA: programs are linked with one or the other.
// Thread-safety: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::sim {

inline constexpr int kNumDevices = 4;

// LibTorch has CUDA of its own: the simulated device is not registered, tests of it are skipped.
bool is_simulated();

// The races since the last call, in words, each once.
std::vector<std::string> take_races();

// The requests to all devices together since reset_counts().
struct Counts {
  std::int64_t operators = 0;
  std::int64_t waits = 0;         // of streams for events
  std::int64_t records = 0;       // record_stream
  std::int64_t synchronized = 0;  // waits of the host for an event
  // `item` and copies that block, from memory that is not pinned, too: by device.
  std::array<std::int64_t, kNumDevices> host_waits{};
};
Counts counts();
void reset_counts();

// From now on the n-th (from 0) such call does nothing, as if it were not in the program.
enum class Call { kWait, kRecord, kSynchronize };
inline std::int64_t number_of(Call call, const Counts& counts) {
  return call == Call::kWait     ? counts.waits
         : call == Call::kRecord ? counts.records
                                 : counts.synchronized;
}
void forget(Call call, std::int64_t n);
void forget_nothing();

std::int64_t live_bytes();

}  // namespace sluice::sim
