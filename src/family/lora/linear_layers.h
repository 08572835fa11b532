// The parameters of a model that are weights of linear layers.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice::detail {

struct LinearLayer {
  std::string name;
  std::int64_t in = 0, out = 0;
  bool transposed = false;  // its weight is [in, out]
  bool tied = false;        // to the embedding
  bool is_head = false;
};

// In the order of the model: the matrices of its blocks and its head.
std::vector<LinearLayer> linear_layers(const ModelSpec& model);

}  // namespace sluice::detail
