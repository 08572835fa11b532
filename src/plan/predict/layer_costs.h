// Costs of layers that were measured elsewhere, in a file that people write (docs/simulate.md).
//
//     {"unit": "ms", "layers": [{"name": "model.embed_tokens", "F": 0.1, "W": 0.2},
//                               {"name": "model.layers.*", "count": 32, "F": 5, "I": 5, "W": 4},
//                               {"class": "head", "F": 8, "B": 15}]}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/predict/layer_times.h"
#include "sluice/model_spec.h"

namespace sluice {

struct LayerCosts {
  // Describes the layers whose name matches `name`, or that have the class. Times are in seconds.
  struct Entry {
    std::string name;        // may contain "*"
    std::string class_name;  // role of a layer ("block"), "mtp", or the class of a module
    std::optional<int> count;
    LayerTime time;
    bool halves_backward = false;  // I and W are each half of the given B
    std::optional<double> kept_bytes, parameter_bytes, sent_bytes;
    std::string place;  // "layers[3]"
  };
  std::vector<Entry> entries;
  double latency = 0, bandwidth = 0;  // seconds, bytes per second
  std::string file;
};

// Throws Error(kInput) naming file and key.
LayerCosts parse_layer_costs(std::string_view text, const std::string& file_name);
LayerCosts read_layer_costs(const std::string& path);

// The costs of a model's layers, with the model as these costs describe its memory.
struct CostedModel {
  ModelSpec model;
  LayerTimes times;
  std::vector<std::string> notes;
};

// Gives every layer of the model its costs. Sizes that the file lacks are those of the model.
// Throws Error(kInput) if a layer has no costs, or if costs match no layer.
CostedModel with_layer_costs(const LayerCosts& costs, ModelSpec model,
                             const MicrobatchShape& microbatch, OptimizerKind optimizer);
// Makes a model from the file's own list. Entries need a name; "*" becomes a number, and `count` of
// them are made. Throws Error(kInput).
CostedModel model_of_layer_costs(const LayerCosts& costs);

namespace detail {

// Numbers the layers of a list: "*" of the n-th layer with the same pattern becomes n. Throws
// Error(kInput).
class LayerNumbers {
 public:
  explicit LayerNumbers(std::string file) : file_(std::move(file)) {}
  std::string next(const std::string& pattern, const std::string& place, bool is_repeated);

 private:
  std::string file_;
  std::vector<std::pair<std::string, int>> counts_;
};

// Returns the class of a layer by its usual names, such as "embedding" for "model.embed_tokens".
std::string usual_class(std::string_view name);
LayerRole role_of_class(std::string_view class_name);

}  // namespace detail
}  // namespace sluice
