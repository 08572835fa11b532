// What an earlier run left in the folders of this one and this run replaces.
// Thread-safety: pure functions, but for reading the folders.
#pragma once

#include <string>

#include "job/resume.h"
#include "sluice/run_config.h"

namespace sluice {

// Throws Error(kUsage) when model.path or model.adapter is a folder that this run would replace
// with its own checkpoint, or remove as an older one: step N of checkpoint.folder, N being at most
// training.steps, since a run may end early.
void require_model_is_kept(const RunConfig& config);

// Throws Error(kUsage) when data.files has the metrics.jsonl that this run would replace.
void require_data_is_kept(const RunConfig& config);

// What is found and not gone on from, and what will be replaced; "" when there is nothing to say.
// Of checkpoints that were skipped, resume.warnings speaks.
std::string earlier_run_warning(const RunConfig& config, const ResumePoint& resume);

}  // namespace sluice
