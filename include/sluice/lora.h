// Adds LoRA adapters to linear layers, in the file format of Hugging Face's PEFT.
//
//     const sluice::ModelSpec base = sluice::read_model_spec("models/llama");
//     const sluice::Adapter adapter = sluice::make_adapter(base, {.rank = 8});
//     const sluice::ModelSpec spec = sluice::with_adapter(base, adapter);
//     sluice::Model model = sluice::causal_lm(spec, {.adapter = adapter});
//     model.initialization.tensor = sluice::stored_values_with_adapter("models/llama");
//
// An adapter turns y = W x into y = W x + scale * B A dropout(x). Only A and B train. Layer X gets
// the float32 parameters X.lora_A.weight [rank, in] and X.lora_B.weight [out, rank]. Source: Hu et
// al., arXiv:2106.09685.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice {

inline constexpr const char* kAllLinear = "all-linear";

struct LoraOptions {
  std::int64_t rank = 0;  // 0: no adapter
  double alpha = 16.0;    // the adapter's output is scaled by alpha / rank
  double dropout = 0.0;   // of the adapter's inputs
  // Patterns ("*") of full names of linear layers. kAllLinear matches all but the output layer.
  std::vector<std::string> target = {"*q_proj", "*v_proj"};
};

struct AdaptedLinear {
  std::string name;
  std::int64_t rank = 0, in = 0, out = 0;
  double alpha = 0;
  bool transposed = false;  // the layer's own weight is stored as [in, out]

  std::string a() const { return name + ".lora_A.weight"; }
  std::string b() const { return name + ".lora_B.weight"; }
};

struct Adapter {
  std::vector<AdaptedLinear> layers;
  double dropout = 0;
  bool rank_stabilized = false;  // scale is alpha / sqrt(rank): Kalajdzievski, arXiv:2312.03732

  double scale(const AdaptedLinear& layer) const;
};

// Throws Error(kUsage) for a pattern without a match (with the nearest name), an output layer that
// is tied to the embedding, or a rank below 1.
Adapter make_adapter(const ModelSpec& model, const LoraOptions& options);

// Reads adapter_config.json and the header of adapter_model.safetensors. Throws Error(kInput) with
// the file and the field or tensor that is missing, malformed, not implemented (docs/lora.md), or
// does not fit the model.
Adapter read_adapter(const std::string& directory, const ModelSpec& model);
bool is_adapter_directory(const std::string& directory);
// Returns base_model_name_or_path of adapter_config.json, or "". Throws Error(kInput) for a missing
// or bad file.
std::string base_of_adapter(const std::string& directory);

// Returns `model` with the adapter's parameters and costs. Only these parameters train. `precision`
// must be the model's. Throws Error(kUsage) if the adapter does not fit the model.
ModelSpec with_adapter(ModelSpec model, const Adapter& adapter, const Precision& precision = {});

// Returns PEFT's adapter_config.json. `base` is the directory of the model's weights.
std::string adapter_config(const Adapter& adapter, const ModelSpec& model, const std::string& base);

}  // namespace sluice
