// Rotary embedding settings of transformers: rope_scaling and rope_theta (version 4), or
// rope_parameters (version 5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "family/config_reader.h"

namespace sluice::detail {

inline constexpr double kUsualRopeTheta = 10000.0;

struct RopeConfig {
  double theta = kUsualRopeTheta;
  std::string type = "default";  // or "linear", "llama3", "yarn", "longrope"
  double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 0;
  // "yarn": the factor of cosines and sines. Channel pairs with more than beta_fast rotations over
  // the original context stay unchanged, those with fewer than beta_slow are interpolated.
  double attention_factor = 1.0, beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;  // round the bounds of "yarn" to whole pairs
  // "longrope": wavelength factors per channel pair in sequences up to the original length, and in
  // longer ones.
  std::vector<double> short_factors = {}, long_factors = {};
  double turned = 1.0;  // rotated fraction of a head
};

struct RopeKeys {
  const char* theta = "rope_theta";
  const char* turned = "partial_rotary_factor";
  double default_rotated_fraction = 1.0;
  // Phi-3 allows only "longrope", also by older names, with a default original length of 4096.
  bool only_longrope = false;
};

// `theta` is the default of rope_theta. Throws Error(kInput) for invalid settings.
RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings,
                     double theta = kUsualRopeTheta);

RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings,
                     const RopeKeys& keys);

// Throws Error(kInput) if the rotated channels do not form pairs or do not match the "longrope"
// factors.
std::int64_t turned_channels(const ConfigReader& config, const RopeConfig& rope,
                             std::int64_t head_dim);

// Reads the settings of one layer type. As in transformers, the original length in `config` is
// ignored.
RopeConfig read_rope_settings(const ConfigReader& config, const std::optional<ConfigReader>& rope,
                              std::int64_t max_position_embeddings, double theta);

double read_theta(const ConfigReader& config, const std::string& key, double fallback);

}  // namespace sluice::detail
