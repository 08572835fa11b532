#pragma once

#include <string>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice::detail {

struct LinearLayer {
  std::string name;
  std::int64_t in = 0, out = 0;
  bool transposed = false;  // the weight is [in, out]
  bool tied = false;        // tied to the embedding
  bool is_head = false;
};

std::vector<LinearLayer> linear_layers(const ModelSpec& model);

}  // namespace sluice::detail
