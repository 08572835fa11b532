// Carries out REDUCE_GRAD with the user's hook, for a whole step or for single microbatches.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "sluice/parts/run_options.h"
#include "sluice/parts/stage.h"
#include "sluice/program.h"

namespace sluice {

class StageReductions {
 public:
  // `program` must outlive this object.
  StageReductions(const Program& program, const std::vector<Stage*>& stages,
                  GradientReduction reduction);

  // Calls the hook. After the last microbatch of a stage, its gradients are the sums of the reduced
  // gradients, added in the order of the calls.
  void reduce(int stage, std::optional<int> microbatch);

 private:
  struct Reduced {
    int num_microbatches = 0;
    std::vector<at::Tensor> sums;  // by parameter of the stage
  };

  const Program& program_;
  std::map<int, Stage*> stages_;
  GradientReduction reduction_;
  std::map<int, Reduced> reduced_;  // by stage, within a step
};

}  // namespace sluice
