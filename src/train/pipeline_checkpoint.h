// Implements Pipeline::save() and load(), which are collective over all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/parts/saver.h"
#include "sluice/pipeline.h"
#include "train/callers_parameters.h"
#include "train/pipeline_rank.h"

namespace sluice {

struct PipelineState {
  PipelineRank& rank;
  const CallersParameters& parameters;
  const Group& world;
  std::int64_t step = 0;
};

// Throws Error(kUsage) if ranks differ in path or options.
SaveOutcome save_pipeline(const PipelineState& state, const std::string& path,
                          const SaveOptions& options);
LoadedState load_pipeline(const PipelineState& state, const std::string& path,
                          const LoadOptions& options);

}  // namespace sluice
