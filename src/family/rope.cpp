#include "family/rope.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/nearest_name.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

struct RopeType {
  std::string name;
  std::vector<std::string> settings;  // names of settings besides theta
};

const std::vector<RopeType>& rope_types() {
  static const std::vector<RopeType> types = {
      {"default", {}},
      {"linear", {"factor"}},
      {"llama3",
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
      {"yarn",
       {"factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
        "truncate", "original_max_position_embeddings"}},
      {"longrope",
       {"factor", "attention_factor", "short_factor", "long_factor",
        "original_max_position_embeddings"}}};
  return types;
}

const RopeType* find_type(const std::string& name) {
  for (const RopeType& type : rope_types()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Rejects keys that have no effect for this rope type.
void require_used(const ConfigReader& rope, const std::string& type) {
  const bool is_typed = rope.has("rope_type") || rope.has("type");
  for (const std::string& key : rope.keys()) {
    if (rope.is_object(key)) {
      rope.fail(key, "rotary settings by layer type are not implemented",
                "use a model whose layers all have the same");
    }
    if (contains({"rope_theta", "partial_rotary_factor", "rope_type", "type"}, key)) continue;
    if (!is_typed) {
      rope.fail(key, "'" + key + "' is set, but no rope_type uses it",
                "add rope_type: \"linear\" or \"llama3\", or leave it out");
    }
    const RopeType* found = find_type(type);
    const bool is_of_another =
        std::any_of(rope_types().begin(), rope_types().end(),
                    [&](const RopeType& other) { return contains(other.settings, key); });
    // An unused original length is harmless.
    if (!found || contains(found->settings, key) || !is_of_another ||
        key == "original_max_position_embeddings")
      continue;
    rope.fail(key, "'" + key + "' does nothing with rope_type '" + type + "'",
              "leave it out, or write the rope_type that it is for");
  }
}

void require_all_turned(const ConfigReader& config) {
  if (config.number("partial_rotary_factor").value_or(1.0) != 1.0) {
    config.fail("partial_rotary_factor", "only 1 is implemented",
                "use a model that rotates all channels");
  }
}

double required(const ConfigReader& rope, const char* key, const std::string& type) {
  if (!rope.has(key)) {
    rope.fail_missing(key, "rope type '" + type + "' needs it: add a number");
  }
  return rope.number(key, 0.0, 1e-6, 1e9);
}

// Peng et al., "YaRN", arXiv:2309.00071, section 3.4.
double yarn_attention_factor(const ConfigReader& rope, double factor) {
  constexpr double kLargest = 1e6;
  if (rope.has("attention_factor")) return rope.number("attention_factor", 1.0, 0.0, kLargest);
  const auto softness = [&](double scale) {
    return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
  };
  const double scale = rope.number("mscale", 0.0, 0.0, kLargest);
  const double all = rope.number("mscale_all_dim", 0.0, 0.0, kLargest);
  return scale > 0 && all > 0 ? softness(scale) / softness(all) : softness(1.0);
}

void read_yarn(const ConfigReader& rope, RopeConfig& out) {
  constexpr double kLargest = 1e6;
  out.attention_factor = yarn_attention_factor(rope, out.factor);
  const auto or_default = [&](const char* key, double fallback) {
    const double value = rope.number(key, fallback, 0.0, kLargest);
    return value > 0 ? value : fallback;
  };
  out.beta_fast = or_default("beta_fast", 32.0);
  out.beta_slow = or_default("beta_slow", 1.0);
  out.truncate = rope.flag("truncate", !rope.is_null("truncate"));
}

// Ding et al., "LongRoPE", arXiv:2402.13753, with Phi-3's attention factor.
void read_longrope(const ConfigReader& config, const ConfigReader& rope,
                   std::int64_t max_position_embeddings, RopeConfig& out) {
  constexpr double kSmallest = 1e-6, kLargest = 1e6;
  for (const char* key : {"short_factor", "long_factor"}) {
    if (!rope.has(key)) rope.fail_missing(key, "rope type 'longrope' needs it: add a list");
  }
  out.short_factors = rope.numbers("short_factor", kSmallest, kLargest);
  out.long_factors = rope.numbers("long_factor", kSmallest, kLargest);
  const double length = static_cast<double>(out.original_max_position_embeddings);
  out.factor =
      rope.number("factor", static_cast<double>(max_position_embeddings) / length, kSmallest, 1e9);
  if (out.factor > 1 && length < 2 && !rope.has("attention_factor")) {
    config.fail("original_max_position_embeddings",
                "there is no attention factor for a context of one token",
                "write the length, or attention_factor");
  }
  const double usual =
      out.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(out.factor) / std::log(length));
  out.attention_factor = rope.number("attention_factor", usual, 0.0, kLargest);
}

}  // namespace

double read_theta(const ConfigReader& config, const std::string& key, double fallback) {
  constexpr double kMin = 1e-3, kMax = 1e15;
  return config.number(key, fallback, kMin, kMax);
}

namespace {

// Without `keys`, all channels are rotated. The original length in `around`, the outer object,
// overrides the one in `rope`.
RopeConfig read_settings(const ConfigReader& config, const std::optional<ConfigReader>& rope,
                         std::int64_t max_position_embeddings, double theta, const RopeKeys* keys,
                         const ConfigReader* around) {
  const char* const kLength = "original_max_position_embeddings";
  const auto original_length = [&](std::int64_t usual) {
    return around ? around->size(kLength, usual) : usual;
  };
  RopeConfig out;
  out.theta = theta;
  if (keys) out.turned = config.number(keys->turned, keys->default_rotated_fraction, 0.0, 1.0);
  if (!rope) return out;
  out.theta = read_theta(*rope, "rope_theta", theta);
  out.type = rope->text("rope_type", rope->text("type", "default"));
  const bool only_longrope = keys && keys->only_longrope;
  if (only_longrope && (out.type == "su" || out.type == "yarn")) out.type = "longrope";
  require_used(*rope, out.type);
  if (keys) {
    out.turned = rope->number("partial_rotary_factor", out.turned, 0.0, 1.0);
  } else {
    require_all_turned(*rope);
  }
  if (!find_type(out.type) || (only_longrope && out.type != "default" && out.type != "longrope")) {
    std::vector<std::string> known;
    for (const RopeType& type : rope_types()) known.push_back(type.name);
    rope->fail(rope->has("rope_type") ? "rope_type" : "type",
               "rotary embedding '" + out.type + "' is not implemented",
               suggest_name(out.type, known));
  }
  if (out.type == "default") return out;
  if (out.type == "longrope") {
    out.original_max_position_embeddings =
        original_length(only_longrope ? 4096 : rope->size(kLength, max_position_embeddings));
    read_longrope(config, *rope, max_position_embeddings, out);
    return out;
  }
  out.factor = required(*rope, "factor", out.type);
  if (out.type == "linear") return out;
  out.original_max_position_embeddings =
      original_length(rope->size(kLength, max_position_embeddings));
  if (out.type == "yarn") {
    read_yarn(*rope, out);
    return out;
  }
  out.low_freq_factor = required(*rope, "low_freq_factor", out.type);
  out.high_freq_factor = required(*rope, "high_freq_factor", out.type);
  if (out.high_freq_factor <= out.low_freq_factor) {
    rope->fail("high_freq_factor", "high_freq_factor is not greater than low_freq_factor",
               "exchange the two?");
  }
  return out;
}

// transformers prefers rope_scaling unless it is empty.
std::optional<ConfigReader> rope_object(const ConfigReader& config) {
  std::optional<ConfigReader> rope = config.object("rope_scaling");
  return rope && !rope->keys().empty() ? rope : config.object("rope_parameters");
}

}  // namespace

RopeConfig read_rope_settings(const ConfigReader& config, const std::optional<ConfigReader>& rope,
                              std::int64_t max_position_embeddings, double theta) {
  RopeConfig out = read_settings(config, rope, max_position_embeddings, theta, /*keys=*/nullptr,
                                 /*around=*/nullptr);
  if (out.type == "yarn" && !out.truncate)
    rope->fail("truncate", "transformers does not read it by layer type", "leave it out");
  return out;
}

RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings,
                     const RopeKeys& keys) {
  return read_settings(config, rope_object(config), max_position_embeddings,
                       read_theta(config, keys.theta, kUsualRopeTheta), &keys, &config);
}

std::int64_t turned_channels(const ConfigReader& config, const RopeConfig& rope,
                             std::int64_t head_dim) {
  const auto channels = static_cast<std::int64_t>(static_cast<double>(head_dim) * rope.turned);
  if (channels < 2 || channels % 2 != 0) {
    config.fail("partial_rotary_factor",
                formatted("{} of the {} channels of a head would be rotated", channels, head_dim),
                "rotary embedding rotates pairs: choose an even number of at least 2");
  }
  const auto pairs = static_cast<std::size_t>(channels / 2);
  if (rope.type == "longrope" &&
      (rope.short_factors.size() != pairs || rope.long_factors.size() != pairs)) {
    config.fail(
        "rope_scaling",
        formatted("short_factor and long_factor have {} and {} numbers for {} pairs of channels",
                  rope.short_factors.size(), rope.long_factors.size(), pairs),
        "write one for every pair");
  }
  return channels;
}

RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings,
                     double theta) {
  const std::optional<ConfigReader> rope = rope_object(config);
  require_all_turned(config);
  return read_settings(config, rope, max_position_embeddings,
                       read_theta(config, "rope_theta", theta), /*keys=*/nullptr, &config);
}

}  // namespace sluice::detail
