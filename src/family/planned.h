// Models that can be planned but not trained: families without modules here, and lists of layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "family/config_reader.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// The dimensions of a family's layers, of which plans need sizes alone.
struct PlannedFamily {
  std::string name;  // model_type of config.json
  ModelSpec (*read)(const ConfigReader& config, const Precision& precision);
};
const std::vector<PlannedFamily>& planned_families();

// Whether the document is a list of layers, or the config.json of a planned family.
bool is_planned_model(const Json& document);
// Precondition: is_planned_model(). Throws Error(kInput) with file and field.
ModelSpec planned_model(const Json& document, const std::string& file_name,
                        const Precision& precision);

// Reads {"layers": [{"name", "count", "flops", "params", "kept_bytes", ..}]} (docs/models.md).
bool is_layer_list(const Json& document);
ModelSpec listed_model(const Json& document, const std::string& file_name,
                       const Precision& precision);

// A layer of a planned model: products of matrices, and what they keep for the backward.
class PlannedLayer {
 public:
  PlannedLayer(std::string name, std::int64_t hidden, const Precision& precision);

  // Adds a matrix that multiplies `share` of the tokens, and keeps its input [columns].
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns, double share = 1.0);
  // Adds `count` matrices, of which each token uses `used`. Their inputs are kept once each.
  void experts(const std::string& name, std::int64_t count, std::int64_t used, std::int64_t rows,
               std::int64_t columns);
  void vector(const std::string& name, std::int64_t size);
  // Adds attention scores of this many channels, over all pairs of tokens, or within a window.
  // Keeps q, k, v and the result, `kept` values a token.
  void attention(std::int64_t query_channels, std::int64_t value_channels, std::int64_t window,
                 std::int64_t kept);
  void keeps(double values) { kept_ += values; }
  // Multiplies by a matrix that is a parameter of another layer.
  void shares(std::int64_t rows, std::int64_t columns);

  LayerInfo layer(LayerRole role = LayerRole::kBlock) const;

 private:
  void add(const std::string& name, std::vector<std::int64_t> shape);

  LayerInfo layer_;
  double value_bytes_;
  double flops_ = 0;       // of a forward, a token
  double weightless_ = 0;  // those of `flops_` without a weight
  double pair_flops_ = 0, kept_ = 0;
};

// Reads the families.
ModelSpec read_deepseek_v3(const ConfigReader& config, const Precision& precision);
ModelSpec read_gpt_oss(const ConfigReader& config, const Precision& precision);
ModelSpec read_glm4_moe(const ConfigReader& config, const Precision& precision);
ModelSpec read_llama4(const ConfigReader& config, const Precision& precision);
ModelSpec read_qwen3_next(const ConfigReader& config, const Precision& precision);

}  // namespace sluice::detail
