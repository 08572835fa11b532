#include "plan/families/rope.h"

#include <algorithm>
#include <cmath>

#include "sluice/error.h"

namespace sluice::detail {
namespace {

struct RopeType {
  std::string name;
  std::vector<std::string> settings;  // that it uses beside the base
};

const std::vector<RopeType>& rope_types() {
  static const std::vector<RopeType> types = {
      {"default", {}},
      {"linear", {"factor"}},
      {"llama3",
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
      {"yarn",
       {"factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
        "truncate", "original_max_position_embeddings"}}};
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

// What a type does not use may not be set: it would do nothing.
void require_used(const ConfigReader& rope, const std::string& type) {
  const bool is_typed = rope.has("rope_type") || rope.has("type");
  for (const std::string& key : rope.keys()) {
    if (rope.is_object(key)) {
      rope.fail(key, "rotary settings by layer type are not implemented",
                "use a model whose layers all have the same");
    }
    if (contains({"rope_theta", "partial_rotary_factor", "rope_type", "type"}, key)) continue;
    if (!is_typed) {
      rope.fail(key, "'" + key + "' is set, but no rope_type says what it is for",
                "add rope_type: \"linear\" or \"llama3\", or leave it out");
    }
    const RopeType* found = find_type(type);
    const bool is_of_another =
        std::any_of(rope_types().begin(), rope_types().end(),
                    [&](const RopeType& other) { return contains(other.settings, key); });
    // A length that was written without need changes nothing.
    if (!found || contains(found->settings, key) || !is_of_another ||
        key == "original_max_position_embeddings")
      continue;
    rope.fail(key, "'" + key + "' does nothing with rope_type '" + type + "'",
              "leave it out, or write the rope_type that it is for");
  }
}

void require_all_turned(const ConfigReader& config) {
  if (config.number("partial_rotary_factor").value_or(1.0) != 1.0) {
    config.fail("partial_rotary_factor", "only 1 is implemented", "use a model that turns all");
  }
}

double required(const ConfigReader& rope, const char* key, const std::string& type) {
  if (!rope.has(key)) {
    rope.fail_missing(key, "rope type '" + type + "' needs it: add a number");
  }
  return rope.number(key, 0.0, 1e-6, 1e9);
}

// Peng et al., "YaRN", arXiv:2309.00071, section 3.4: softer scores for longer contexts.
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
  out.truncate = rope.flag("truncate", true);
}

}  // namespace

double read_theta(const ConfigReader& config, const std::string& key, double fallback) {
  constexpr double kMin = 1e-3, kMax = 1e15;
  return config.number(key, fallback, kMin, kMax);
}

RopeConfig read_rope_settings(const ConfigReader& config, const std::optional<ConfigReader>& rope,
                              std::int64_t max_position_embeddings, double theta) {
  RopeConfig out;
  out.theta = theta;
  if (!rope) return out;
  out.theta = read_theta(*rope, "rope_theta", theta);
  out.type = rope->text("rope_type", rope->text("type", "default"));
  require_used(*rope, out.type);
  require_all_turned(*rope);
  if (!find_type(out.type)) {
    std::vector<std::string> known;
    for (const RopeType& type : rope_types()) known.push_back(type.name);
    rope->fail(rope->has("rope_type") ? "rope_type" : "type",
               "rotary embedding '" + out.type + "' is not implemented",
               suggest_name(out.type, known));
  }
  if (out.type == "default") return out;
  out.factor = required(*rope, "factor", out.type);
  if (out.type == "linear") return out;
  out.original_max_position_embeddings =
      rope->size("original_max_position_embeddings", max_position_embeddings);
  out.original_max_position_embeddings =
      config.size("original_max_position_embeddings", out.original_max_position_embeddings);
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

RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings,
                     double theta) {
  // transformers prefers rope_scaling where both are given.
  std::optional<ConfigReader> rope = config.object("rope_scaling");
  if (!rope) rope = config.object("rope_parameters");
  require_all_turned(config);
  return read_rope_settings(config, rope, max_position_embeddings,
                            read_theta(config, "rope_theta", theta));
}

}  // namespace sluice::detail
