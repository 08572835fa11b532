// Collects the model outputs that this rank computes or, after gather(), of all microbatches.
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
  OutputWatch(const Program& program, const std::vector<std::string>& names)
      : program_(program), names_(names) {}

  void keep(bool on) { is_on_ = on; }
  // Carries out GATHER_OUTPUTS. Collective over the program's ranks.
  Work<void> gather(const Group& ranks);
  std::vector<Values> take();  // outputs in microbatch order

  void begin_step(std::int64_t /*step*/) override { of_microbatch_.clear(); }
  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override;

 private:
  const Program& program_;
  const std::vector<std::string>& names_;
  bool is_on_ = false;
  std::map<int, Values> of_microbatch_;
};

}  // namespace sluice
