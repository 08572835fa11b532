// Faults to inject into a run, for tests. The environment variable SLUICE_FAULT lists them.
//
//  KIND[:SELECTOR,SELECTOR,..][;KIND..]        kill:rank=1,step=3,instruction=12
//  KIND       kill stop exit throw delay nan corrupt (docs/failures.md)
//  SELECTOR   rank=R step=S instruction=I stage=S microbatch=M
//             action=1F0, or a kind of action (F, SEND_F, REDUCE_NORM)
//             call=N: at the instruction's N-th collective call
//  options    ms=500 (delay), busy (delay: compute instead of sleep), times=N, always
//
// A missing selector matches everything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/parts/action.h"

namespace sluice {

inline constexpr const char* kFaultVariable = "SLUICE_FAULT";

enum class FaultKind : std::uint8_t { kKill, kStop, kExit, kThrow, kDelay, kNan, kCorrupt };

struct Fault {
  FaultKind kind = FaultKind::kThrow;
  std::optional<int> rank;
  std::optional<std::int64_t> step;  // from 1
  std::optional<int> instruction;    // index in the rank's instructions
  std::optional<int> stage, microbatch;
  int call = 0;  // which collective call of the instruction, from 1; 0: before the instruction
  std::string action;  // "1F0", or a kind such as "F"
  std::int64_t ms = 1000;
  bool busy = false;
  std::int64_t times = 1;
  bool always = false;  // also after a restart

  // Whether `part` can have this fault. kNan needs a forward or backward, kCorrupt a send.
  bool can_meet(const Action& part) const;
  // `part` is `whole` or one half of an overlapped pair.
  bool matches(int at_rank, std::int64_t at_step, int at_index, const Action& whole,
               const Action& part) const;
};

// Throws Error(kUsage) for malformed or impossible faults.
std::vector<Fault> parse_faults(std::string_view text);

std::string to_text(const Fault& fault);

}  // namespace sluice
