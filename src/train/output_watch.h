// Outputs that leave the model in a step, for callers who ask for them.
//
// Owns: the outputs of the microbatches whose last stage this rank has, and after a gathering all.
// Does not own: the time of gathering (the program). Thread-safety: one rank's thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sluice/parts/flow.h"
#include "sluice/parts/group.h"
#include "sluice/parts/observers.h"
#include "sluice/program.h"

namespace sluice {

class OutputWatch final : public ExecutorObserver {
 public:
  // names: Model::outputs. References must outlive it.
  OutputWatch(const Program& program, const std::vector<std::string>& names)
      : program_(program), names_(names) {}

  void keep(bool on) { is_on_ = on; }
  // GATHER_OUTPUTS, collective over the ranks of the program.
  Work<void> gather(const Group& ranks);
  std::vector<Values> take();  // in the order of the microbatches

  void begin_step(std::int64_t /*step*/) override { of_microbatch_.clear(); }
  // Without their graphs.
  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override;

 private:
  const Program& program_;
  const std::vector<std::string>& names_;
  bool is_on_ = false;
  std::map<int, Values> of_microbatch_;
};

}  // namespace sluice
