// Injects faults into one rank's instructions, for tests. Syntax: plan/fault.h.
//
// A fault acts at the first `times` matching instructions that it can affect. A NaN fault acts
// again if the search for non-finite values repeats the instruction. Faults are logged before they
// act.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "plan/fault.h"
#include "sluice/parts/observers.h"

namespace sluice {

class FaultInjector final : public ExecutorObserver {
 public:
  FaultInjector(const std::vector<Fault>& faults, int rank);
  // Unless the run failed, warns of faults that matched no instruction.
  ~FaultInjector() override;
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  // Batches without a number, as in evaluations, are counted as steps 1, 2, ...
  void begin_step(std::int64_t step) override;
  void begin(int index, const Action& action) override;
  void calling(const Action& action, const std::string& call) override;
  void failed(int index, const Action& action) noexcept override;
  void sending(const Action& action, const std::vector<at::Tensor>& tensors) override;
  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override;

 private:
  struct Armed {
    Fault fault;
    std::int64_t left = 0;
    // Where a NaN fault acted: step, instruction index, and half of an overlapped pair.
    std::vector<std::tuple<std::int64_t, int, ActionKind>> at;
  };
  // call: number of the group call within the instruction, 0 before the first. part: the action, or
  // the running half of an overlapped pair.
  void act_here(const Action& part, int call);
  bool acts(const Armed& armed, const Action& part) const;
  void acted(Armed& armed, ActionKind part);
  void say(const Fault& fault) const;
  void act(const Fault& fault) const;

  const int rank_;
  std::vector<Armed> armed_;
  std::int64_t step_ = 0, unnumbered_ = 0;
  int index_ = -1;
  int calls_ = 0;
  Action action_;
  bool failed_ = false;
};

// Returns this rank's faults from SLUICE_FAULT, or null. Rank 0 logs all faults. After a restart,
// only faults with `always` remain. Throws Error(kUsage) for a malformed variable or a missing
// rank.
std::unique_ptr<FaultInjector> injected_faults(int rank, int num_ranks);

}  // namespace sluice
