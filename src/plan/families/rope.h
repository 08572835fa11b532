// Settings of rotary position embedding, as transformers writes them: rope_scaling / rope_theta
// (version 4) and rope_parameters (version 5) mean the same.
//
// Owns: their meaning. Does not own: the angles (src/model/rotary.h).
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>

#include "plan/families/config_reader.h"

namespace sluice::detail {

struct RopeConfig {
  double theta = 10000.0;
  std::string type = "default";  // or "linear", "llama3"
  double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 0;
};

// Throws Error(kInput) for types and settings that are not implemented.
RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings);

}  // namespace sluice::detail
