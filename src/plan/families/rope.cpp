#include "plan/families/rope.h"

#include "sluice/error.h"

namespace sluice::detail {
namespace {

// What a type does not use may not be set: it would do nothing.
void require_used(const ConfigReader& rope, const std::string& type) {
  const std::vector<std::string> of_llama3 = {"factor", "low_freq_factor", "high_freq_factor"};
  const std::size_t num_used = type == "default" ? 0 : type == "linear" ? 1 : of_llama3.size();
  for (std::size_t i = num_used; i < of_llama3.size(); ++i) {
    if (!rope.has("rope_type") && !rope.has("type")) break;
    if (!rope.has(of_llama3[i])) continue;
    rope.fail(of_llama3[i], "'" + of_llama3[i] + "' does nothing with rope_type '" + type + "'",
              "leave it out, or write the rope_type that it is for");
  }
  for (const std::string& key : rope.keys()) {
    if (rope.is_object(key)) {
      rope.fail(key, "rotary settings by layer type are not implemented",
                "use a model whose layers all have the same");
    }
    const bool used = key == "rope_theta" || key == "partial_rotary_factor";
    if (used || rope.has("rope_type") || rope.has("type")) continue;
    rope.fail(key, "'" + key + "' is set, but no rope_type says what it is for",
              "add rope_type: \"linear\" or \"llama3\", or leave it out");
  }
}

}  // namespace

RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position_embeddings) {
  // transformers prefers rope_scaling where both are given.
  std::optional<ConfigReader> rope = config.object("rope_scaling");
  if (!rope) rope = config.object("rope_parameters");
  constexpr double kMinTheta = 1e-3, kMaxTheta = 1e15;
  RopeConfig out;
  out.theta = config.number("rope_theta", out.theta, kMinTheta, kMaxTheta);
  if (config.number("partial_rotary_factor").value_or(1.0) != 1.0) {
    config.fail("partial_rotary_factor", "only 1 is implemented", "use a model that turns all");
  }
  if (!rope) return out;
  out.theta = rope->number("rope_theta", out.theta, kMinTheta, kMaxTheta);
  out.type = rope->text("rope_type", rope->text("type", "default"));
  require_used(*rope, out.type);
  if (rope->number("partial_rotary_factor").value_or(1.0) != 1.0) {
    rope->fail("partial_rotary_factor", "only 1 is implemented", "use a model that turns all");
  }
  if (out.type == "default") return out;
  const std::vector<std::string> known = {"default", "linear", "llama3"};
  if (out.type != "linear" && out.type != "llama3") {
    rope->fail(rope->has("rope_type") ? "rope_type" : "type",
               "rotary embedding '" + out.type + "' is not implemented",
               suggest_name(out.type, known));
  }
  const auto required = [&](const char* key) {
    if (!rope->has(key)) {
      rope->fail_missing(key, "rope type '" + out.type + "' needs it: add a number");
    }
    return rope->number(key, 0.0, 1e-6, 1e9);
  };
  out.factor = required("factor");
  if (out.type == "linear") return out;
  out.low_freq_factor = required("low_freq_factor");
  out.high_freq_factor = required("high_freq_factor");
  if (out.high_freq_factor <= out.low_freq_factor) {
    rope->fail("high_freq_factor", "high_freq_factor is not greater than low_freq_factor",
               "exchange the two?");
  }
  out.original_max_position_embeddings =
      rope->size("original_max_position_embeddings", max_position_embeddings);
  out.original_max_position_embeddings =
      config.size("original_max_position_embeddings", out.original_max_position_embeddings);
  return out;
}

}  // namespace sluice::detail
