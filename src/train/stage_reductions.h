// REDUCE_GRAD by a hook of the user's: of a whole step, or a microbatch at a time.
//
// Owns: the reduced gradients of a step so far. Does not own: the gradients (Stage), when it
// happens (the program). Thread-safety: one rank's thread.
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
  // The program must outlive it.
  StageReductions(const Program& program, const std::vector<Stage*>& stages,
                  GradientReduction reduction);

  // Calls the hook. After the last microbatch of a stage its sums are those of the reduced
  // gradients, added up in the order of the calls.
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
