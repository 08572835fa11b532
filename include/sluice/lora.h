// LoRA: low-rank adapters of linear layers, trained while the rest of a model is frozen, in the
// form in which Hugging Face's PEFT keeps them. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", arXiv:2106.09685.
//
// A linear layer y = W x with an adapter is y = W x + scale * B A dropout(x). It keeps its names;
// A and B are the parameters X.lora_A.weight [rank, in] and X.lora_B.weight [out, rank] of the
// layer X. They are float32 whatever the type of the model, as PEFT makes them.
//
//   const sluice::ModelSpec base = sluice::read_model_spec("models/llama");
//   const sluice::Adapter adapter = sluice::make_adapter(base, {.rank = 8});
//   const sluice::ModelSpec spec = sluice::with_adapter(base, adapter);
//   sluice::Model model = sluice::causal_lm(spec, {.adapter = adapter});
//   model.initialization.tensor = sluice::stored_values_with_adapter("models/llama");
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice {

inline constexpr const char* kAllLinear = "all-linear";

// A new adapter.
struct LoraOptions {
  std::int64_t rank = 0;  // 0: none
  double alpha = 16.0;    // the adapter's output is scaled by alpha / rank
  double dropout = 0.0;   // share of the adapter's inputs that are dropped
  // Patterns of the full names of linear layers ("model.layers.0.self_attn.q_proj"); `*` is any run
  // of characters. kAllLinear is all of them but the output layer.
  std::vector<std::string> target = {"*q_proj", "*v_proj"};
};

// The adapter of one linear layer.
struct AdaptedLinear {
  std::string name;  // full name of the linear layer
  std::int64_t rank = 0, in = 0, out = 0;
  double alpha = 0;
  bool transposed = false;  // the layer's own weight is stored as [in, out]

  std::string a() const { return name + ".lora_A.weight"; }
  std::string b() const { return name + ".lora_B.weight"; }
};

struct Adapter {
  std::vector<AdaptedLinear> layers;  // in the order of the model
  double dropout = 0;
  bool rank_stabilized = false;  // scaled by alpha / sqrt(rank): Kalajdzievski, arXiv:2312.03732

  double scale(const AdaptedLinear& layer) const;
};

// An adapter of the linear layers that match options.target. Throws Error(kUsage) at "lora.target"
// for a pattern that matches none, with the nearest name, and for an output layer that is tied to
// the embedding; at "lora.rank" for a rank below 1.
Adapter make_adapter(const ModelSpec& model, const LoraOptions& options);

// The adapter of a PEFT directory: adapter_config.json, and the names and shapes of
// adapter_model.safetensors, which show the layers that target_modules matched. Throws
// Error(kInput) naming file and field or tensor that is missing, malformed, of another model, or
// not implemented (docs/lora.md).
Adapter read_adapter(const std::string& directory, const ModelSpec& model);
bool is_adapter_directory(const std::string& directory);  // has an adapter_config.json

// `model` with the adapter's parameters, the only ones that train, and their costs. precision: the
// model's. Throws Error(kUsage) for an adapter of another model.
ModelSpec with_adapter(ModelSpec model, const Adapter& adapter, const Precision& precision = {});

// The text of PEFT's adapter_config.json for these linear layers of `model`. base: the directory of
// the model's weights.
std::string adapter_config(const Adapter& adapter, const ModelSpec& model, const std::string& base);

}  // namespace sluice
