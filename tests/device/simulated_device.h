// A simulated accelerator: `cuda:0` to `cuda:3` on the CPU build of LibTorch, with its own device
// type, streams, events, pinned memory, autocast and autograd device threads.
//
// Device memory is host memory. Operators are LibTorch's CPU kernels and run immediately, in
// program order. Vector clocks (machine.h) find work that a GPU could reorder, so a missing wait is
// found in every run, whatever the timing. Copies to pinned memory happen when the host waits for
// them; before that the memory holds poison.
//
// Not found: host reads through `data_ptr`, races of two host threads (use the thread sanitizer),
// errors of real kernels and their atomics, fragmentation, launch errors.
//
// A program links either this device or LibTorch's CUDA. All functions are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::sim {

inline constexpr int kNumDevices = 4;

// False if LibTorch has real CUDA. The simulated device is not registered then; skip its tests.
bool is_simulated();

// Descriptions of the races since the last call.
std::vector<std::string> take_races();

struct Counts {
  std::int64_t operators = 0;
  std::int64_t waits = 0;
  std::int64_t records = 0;  // record_stream
  std::int64_t synchronized = 0;
  // Per device: `item`, and blocking copies, including those from memory that is not pinned.
  std::array<std::int64_t, kNumDevices> host_waits{};
};
Counts counts();
void reset_counts();

// Skips the n-th following call (from 0) of this kind.
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
