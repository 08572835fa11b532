// Faults to inject, as SLUICE_FAULT names them: which, and at which instruction of a run.
//
//   KIND[:SELECTOR,SELECTOR,..][;KIND..]        kill:rank=1,step=3,instruction=12
//   KIND       kill stop exit throw delay nan corrupt (docs/failures.md)
//   SELECTOR   rank=R step=S instruction=I stage=S microbatch=M action=1F0 or a kind of action
//              (F, SEND_F, REDUCE_NORM); what is left out matches everything
//              call=N: not at its beginning, but at its N-th call to other members of a group
//   and        ms=500 (delay), busy (delay: computes instead of sleeping), times=N, always
//
// Owns: the text form, and what a fault matches. Does not own: what it does
// (run/fault_injection.h). Thread-safety: values and pure functions.
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
  std::optional<int> rank;           // rank of the run
  std::optional<std::int64_t> step;  // 1-based
  std::optional<int> instruction;    // index in the rank's row
  std::optional<int> stage, microbatch;
  int call = 0;        // which of the instruction's calls to members of groups; 0: its beginning
  std::string action;  // as in a CSV ("1F0"), or a kind of action ("F"); "" for any
  std::int64_t ms = 1000;  // kDelay: how long
  bool busy = false;       // kDelay: by computing
  std::int64_t times = 1;  // how often it acts, at the first instructions that match
  bool always = false;     // also after the launcher has started the run anew

  // True if an instruction of its kind can suffer this fault: nan needs an F, B or I, which hand
  // something on, corrupt a SEND; the others any.
  bool can_meet(const Action& part) const;
  // part: the action itself, or the half of a pair.
  bool matches(int at_rank, std::int64_t at_step, int at_index, const Action& whole,
               const Action& part) const;
};

// Throws Error(kUsage) at SLUICE_FAULT: another kind or selector (with the nearest), a value that
// is no number in range, a selector twice, an action that is none or cannot suffer the fault.
std::vector<Fault> parse_faults(std::string_view text);

// "kill at rank 1, step 3, instruction 12": for the log.
std::string to_text(const Fault& fault);

}  // namespace sluice
