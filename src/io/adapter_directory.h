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
  // Throws Error(kInput). Threads may share it.
  explicit AdapterDirectory(const std::string& path);
  const SafetensorsReader& file() const { return file_; }

 private:
  SafetensorsReader file_;
};

// An adapter may store weights of its base. Throws Error(kInput) if one differs from `base`.
void require_base_layers(const AdapterDirectory& directory, const HfDirectory& base);

// Other parameters stay unchanged. Throws Error(kInput).
void load_adapter(const AdapterDirectory& directory, std::vector<ParameterInfo>& parameters);
// Initializes an adapter that does not change the model yet, with the same bits in every layout.
void draw_adapter(std::vector<ParameterInfo>& parameters, std::uint64_t seed);

}  // namespace sluice
