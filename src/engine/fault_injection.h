// Injects faults into the instructions of one rank, for tests of what happens then.
//
// Owns: what each kind of fault does, and when it has acted. Does not own: what the variable means
// (report/fault.h). An observer, like any other: the executor knows nothing of it.
//
// Invariants:
//  1. A fault acts at the first instruction that it matches and that can suffer it, `times` times
//     in all; nan again whenever that very instruction of that step runs again, as it does for the
//     search of what is not finite.
//  2. Before it acts it is named in the log.
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "report/fault.h"
#include "sluice/parts/observers.h"

namespace sluice {

class FaultInjector final : public ExecutorObserver {
 public:
  // rank: of the run.
  FaultInjector(const std::vector<Fault>& faults, int rank);
  // Warns of a fault of this rank for which no instruction came in a run that did not fail.
  ~FaultInjector() override;
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  // Batches without a number, as those of an evaluation, are steps 1, 2, .. here.
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
    std::int64_t left = 0;  // how often it will act yet
    // Step, instruction and the half of it where nan acted.
    std::vector<std::tuple<std::int64_t, int, ActionKind>> at;
  };
  // At the beginning of the instruction, or at its call of that number; part: that runs.
  void act_here(const Action& part, int call);
  bool acts(const Armed& armed, const Action& part) const;
  void acted(Armed& armed, ActionKind part);
  void say(const Fault& fault) const;
  void act(const Fault& fault) const;

  const int rank_;
  std::vector<Armed> armed_;
  std::int64_t step_ = 0, unnumbered_ = 0;
  int index_ = -1;
  int calls_ = 0;  // of the instruction
  Action action_;
  bool failed_ = false;
};

// The faults of SLUICE_FAULT for this rank of `num_ranks`; null without one. Rank 0 says in the log
// what will be injected. A fault without `always` is none after a restart
// (TORCHELASTIC_RESTART_COUNT above 0). Throws Error(kUsage) for a malformed variable, and for a
// rank that the run does not have.
std::unique_ptr<FaultInjector> injected_faults(int rank, int num_ranks);

}  // namespace sluice
