// What an earlier run left in the folders of this one: it is not resumed, and some of it replaced.
// Thread-safety: pure functions, but for reading the folders.
#pragma once

#include <string>

#include "sluice/run_config.h"

namespace sluice {

// Throws Error(kUsage) when model.path is a folder that this run would replace with its own
// weights: step N of checkpoint.folder, N being at most training.steps, since a run may end early.
void require_model_is_kept(const RunConfig& config);

// Throws Error(kUsage) when data.files has the metrics.jsonl that this run would replace.
void require_data_is_kept(const RunConfig& config);

// What is found, that it is not resumed, and what will be replaced; "" when there is nothing to
// say. With resume = "none" nobody expects to resume.
std::string earlier_run_warning(const RunConfig& config);

}  // namespace sluice
