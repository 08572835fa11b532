// Settings of rotary position embedding, as transformers writes them: rope_scaling / rope_theta
// (version 4) and rope_parameters (version 5) mean the same.
//
// Owns: their meaning. Does not own: the angles (src/model/rotary.h).
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/families/config_reader.h"

namespace sluice::detail {

inline constexpr double kUsualRopeTheta = 10000.0;

struct RopeConfig {
  double theta = kUsualRopeTheta;
  std::string type = "default";  // or "linear", "llama3", "yarn"
  double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 0;
  // Of "yarn": what cosines and sines are multiplied with, and the turns of a pair over the
  // original context above and below which it is kept and interpolated.
  double attention_factor = 1.0, beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;  // those bounds to whole pairs
};

// theta: where none is written. Throws Error(kInput) for types and settings that are not
// implemented.
RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings,
                     double theta = kUsualRopeTheta);

// The same of the settings `rope` alone; none: the default type. config: the object around them.
RopeConfig read_rope_settings(const ConfigReader& config, const std::optional<ConfigReader>& rope,
                              std::int64_t max_position_embeddings, double theta);

// Bounds of what is read as rope_theta.
double read_theta(const ConfigReader& config, const std::string& key, double fallback);

}  // namespace sluice::detail
