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
  // Threads may share the object. Throws Error(kInput).
  explicit AdapterDirectory(const std::string& path);
  const SafetensorsReader& file() const { return file_; }

 private:
  SafetensorsReader file_;
};

// Throws Error(kInput) if weights of the base model that are stored with the adapter differ from
// `base`.
void require_base_layers(const AdapterDirectory& directory, const HfDirectory& base);

// Loads the adapter's parameters and leaves others unchanged. Throws Error(kInput).
void load_adapter(const AdapterDirectory& directory, std::vector<ParameterInfo>& parameters);
// Initializes an adapter so that it does not change the model, with the same bits in every layout.
void draw_adapter(std::vector<ParameterInfo>& parameters, std::uint64_t seed);

}  // namespace sluice
