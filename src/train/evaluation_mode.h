// Modules in evaluation mode for a while. Thread-safety: one rank's thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "sluice/parts/stage.h"

namespace sluice {

// Modules in evaluation mode; afterwards each is in the mode that it was in.
class EvaluationMode {
 public:
  explicit EvaluationMode(const RankStages& stages) {
    for (const auto& stage : stages.stages()) {
      for (auto& module : stage->chunk().modules()) {
        modes_.emplace_back(module, module->is_training());
      }
    }
    for (auto& [module, is_training] : modes_) module->eval();
  }
  ~EvaluationMode() {
    for (auto& [module, is_training] : modes_) module->train(is_training);  // submodules follow
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

}  // namespace sluice
