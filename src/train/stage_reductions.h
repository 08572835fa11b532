// Carries out REDUCE_GRAD with the user's reduction hook.
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
  StageReductions(const Program& program, const std::vector<Stage*>& stages,
                  GradientReduction reduction);

  // Calls the hook. Adds gradients of single microbatches in call order. The last call sets the
  // stage's gradients.
  void reduce(int stage, std::optional<int> microbatch);

 private:
  struct Reduced {
    int num_microbatches = 0;
    std::vector<at::Tensor> sums;
  };

  const Program& program_;
  std::map<int, Stage*> stages_;
  GradientReduction reduction_;
  std::map<int, Reduced> reduced_;
};

}  // namespace sluice
