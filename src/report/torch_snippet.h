// Python that builds the PipelineStages and the schedule of a split for torch.
#pragma once

#include <string>
#include <vector>

#include "sluice/partition.h"

namespace sluice {

struct TorchSnippet {
  ModuleNames modules;
  std::vector<int> stage_to_rank;
  std::string schedule;  // torch's name; with a CSV it is not used
  std::string csv_file;
  int num_microbatches = 0;  // 0: unknown
};
std::string torch_snippet(const TorchSnippet& snippet);

}  // namespace sluice
