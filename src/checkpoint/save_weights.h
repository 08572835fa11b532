// The end of a run: every rank's parameters as one Hugging Face directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/parts/group.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {

// Collective. Every rank writes its own parameters, rank 0 publishes <folder>/step-XXXXXXXX, whose
// path every rank returns. config_text, source_directory: as HfWriter::publish takes them. Throws
// Error(kCheckpoint); nothing is left then.
std::string save_weights(const std::string& folder, std::int64_t step,
                         const std::vector<ParameterInfo>& parameters,
                         const std::string& config_text, const std::string& source_directory,
                         const Group& world);

}  // namespace sluice
