// Settings of rotary position embedding, as transformers writes them: rope_scaling / rope_theta
// (version 4) and rope_parameters (version 5) mean the same.
//
// Owns: their meaning. Does not own: the angles (src/model/rotary.h).
// Thread-safety: values.
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
  // For "yarn": the factor of cosines and sines, and the turns of a pair over the original context
  // above and below which it is kept and interpolated.
  double attention_factor = 1.0, beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;  // those bounds to whole pairs
  // For "longrope": the factors of the wavelength of every pair, in sequences up to the original
  // length and in longer ones. It has an attention_factor, too.
  std::vector<double> short_factors = {}, long_factors = {};
  double turned = 1.0;  // the part of a head's channels
};

// The keys that a family writes differently; some turn only a part of every head.
struct RopeKeys {
  const char* theta = "rope_theta";
  const char* turned = "partial_rotary_factor";
  double usually_turned = 1.0;
  // Phi-3: only "longrope", which has two older names there, and the key
  // original_max_position_embeddings, 4096 where it is absent.
  bool only_longrope = false;
};

// theta: where none is written. Throws Error(kInput) for types and settings that are not
// implemented.
RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings,
                     double theta = kUsualRopeTheta);

RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings,
                     const RopeKeys& keys);

// The channels of a head of `head_dim` that are turned. Throws Error(kInput) where these are no
// pairs, or "longrope" has factors for others.
std::int64_t turned_channels(const ConfigReader& config, const RopeConfig& rope,
                             std::int64_t head_dim);

// The same of the settings `rope` of one type of layers; none: the default type. What the object
// `config` around them says does not count, as in transformers.
RopeConfig read_rope_settings(const ConfigReader& config, const std::optional<ConfigReader>& rope,
                              std::int64_t max_position_embeddings, double theta);

// Bounds of what is read as rope_theta.
double read_theta(const ConfigReader& config, const std::string& key, double fallback);

}  // namespace sluice::detail
