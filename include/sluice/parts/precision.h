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

// Whether the head computes the loss too, by blocks of the vocabulary, so that all logits of a
// microbatch are never there at once. The model's last value is then "loss", not "logits".
enum class LossChunks { kOff, kAuto, kOn };
// The vocabulary from which on kAuto does so.
inline constexpr std::int64_t kLargeVocabulary = 32768;

struct Precision {
  std::string parameters = "float32";  // and what goes from layer to layer
  std::string
      products;  // operands and results of products of matrices, under autocast; "": the same

  // Blocks run as fused operators where they can: LayerOptions::fused (causal_lm.h). A model with
  // adapters is read without.
  bool fused = true;

  LossChunks loss_chunks = LossChunks::kOff;  // where operators are fused

  std::int64_t parameter_bytes() const { return dtype_bytes(parameters); }
  std::int64_t product_bytes() const {
    return dtype_bytes(products.empty() ? parameters : products);
  }
  bool fuses() const { return fused && parameters == "float32" && !casts(); }
  bool chunks_loss(std::int64_t vocab_size) const {
    return fuses() && loss_chunks != LossChunks::kOff &&
           (loss_chunks == LossChunks::kOn || vocab_size >= kLargeVocabulary);
  }
  // Every product then keeps a copy of its weights and of its input.
  bool casts() const { return !products.empty() && products != parameters; }
};

// As read_model_spec(path), with the types of parameters and values and the costs of this
// precision.
ModelSpec read_model_spec(const std::string& path, const Precision& precision);
ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name,
                           const Precision& precision);

}  // namespace sluice
