// In which types a model of a family holds its numbers and computes with them, and with which
// operators: what its bytes depend on.
//
// Owns: the value, reading a model for it. Does not own: autocast, modules (causal_lm.h).
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/model_spec.h"

namespace sluice {

struct Precision {
  std::string parameters = "float32";  // and what goes from layer to layer
  std::string
      products;  // operands and results of products of matrices, under autocast; "": the same

  // Blocks run as fused operators where they can: LayerOptions::fused (causal_lm.h). A model with
  // adapters is read without.
  bool fused = true;

  std::int64_t parameter_bytes() const { return dtype_bytes(parameters); }
  std::int64_t product_bytes() const {
    return dtype_bytes(products.empty() ? parameters : products);
  }
  bool fuses() const { return fused && parameters == "float32" && !casts(); }
  // Every product then keeps a copy of its weights and of its input.
  bool casts() const { return !products.empty() && products != parameters; }
};

// As read_model_spec(path), with the types of parameters and values and the costs of this
// precision.
ModelSpec read_model_spec(const std::string& path, const Precision& precision);
ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name,
                           const Precision& precision);

}  // namespace sluice
