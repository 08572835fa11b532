// The tensors of adapters: of PEFT directories, and drawn.
//
// Owns: loading them into local parameters. Does not own: adapter_config.json and what the tensors
// have to be (lora.h: read_adapter), the weights of the base (hf_directory.h).
// Thread-safety: an AdapterDirectory may be shared.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "sluice/layer.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {

class AdapterDirectory {
 public:
  // Opens adapter_model.safetensors and reads its header. Throws Error(kInput).
  explicit AdapterDirectory(const std::string& path);
  const SafetensorsReader& file() const { return file_; }

 private:
  SafetensorsReader file_;
};

// Checks that weights of the base which are stored beside the adapter are those of `base`. Throws
// Error(kInput) naming one that differs.
void require_base_layers(const AdapterDirectory& directory, const HfDirectory& base);

// Those of `parameters` that are an adapter's, or its slices of them, by full name; the others stay
// as they are. Throws Error(kInput) as SafetensorsReader::read_into.
void load_adapter(const AdapterDirectory& directory, std::vector<ParameterInfo>& parameters);
// The same, drawn: a new adapter, which adds nothing yet. The same bits in every layout.
void draw_adapter(std::vector<ParameterInfo>& parameters, std::uint64_t seed);

}  // namespace sluice
