// Pipeline::save() and load(): what of a pipeline is in a checkpoint.
// Thread-safety: one rank's thread; collective over all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/parts/saver.h"
#include "sluice/pipeline.h"
#include "train/parameter_list.h"

namespace sluice {

// Of a pipeline, between steps.
struct PipelineState {
  std::vector<Stage*> stages;
  const std::vector<SharedParameter>& shared;
  const Group& world;
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  bool saves = true;  // this replica's are written
};

// Throws Error(kUsage) where ranks differ in what they want to save.
SaveOutcome save_pipeline(const PipelineState& state, const std::string& path,
                          const SaveOptions& options);
LoadedState load_pipeline(const PipelineState& state, const std::string& path,
                          torch::optim::Optimizer* optimizer);

}  // namespace sluice
