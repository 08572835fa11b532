#pragma once

#include <string>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice::detail {

struct LinearLayer {
  std::string name;
  std::int64_t in = 0, out = 0;
  bool transposed = false;  // true if the weight is stored as [in, out]
  bool tied = false;        // true if the weight is tied to the embedding
  bool is_head = false;
};

// Returns the matrices of all blocks and of the head, in model order.
std::vector<LinearLayer> linear_layers(const ModelSpec& model);

}  // namespace sluice::detail
