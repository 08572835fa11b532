// The base that a checkpoint of an adapter belongs to.
// Thread-safety: pure functions of the files.
#pragma once

#include <string>

#include "sluice/model_spec.h"

namespace sluice {

struct OpenedWeights;  // job/run_inputs.h

// Throws Error(kCheckpoint) when `adapter` is a checkpoint of a run that began from another model
// than these weights. A PEFT directory that is no checkpoint does not say from which.
void require_base_of_run(const std::string& adapter, const ModelSpec& spec,
                         const OpenedWeights& base);
// The same of the Hugging Face directory `base`. Throws Error(kInput) where it cannot be read.
void require_base_of_run(const std::string& adapter, const std::string& base);

}  // namespace sluice
