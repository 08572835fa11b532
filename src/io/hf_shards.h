// Threads may share an object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/safetensors.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {

struct TensorSource {
  const SafetensorsReader* file = nullptr;
  const SafetensorsEntry* entry = nullptr;
};

class HfShards {
 public:
  // Throws as HfDirectory's constructor.
  explicit HfShards(std::string path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;
  // Also finds a full name in a checkpoint of the bare model, whose names lack "model." or
  // "transformer.". Pointers live as long as this object.
  std::optional<TensorSource> find(std::string_view name) const;
  // Throws Error(kInput) with the closest name. `others` are needed too, so they are never
  // suggested.
  TensorSource locate(std::string_view name, const std::vector<std::string>& others = {}) const;

 private:
  std::optional<TensorSource> find_stored(std::string_view name) const;
  // Whether any tensor belongs to the layer, with or without the base model's prefix.
  bool has_layer(const std::string& layer) const;

  std::string path_;
  std::vector<SafetensorsReader> shards_;
  std::vector<std::pair<std::string, std::uint32_t>> by_name_;  // sorted; index into shards_
};

// Compares headers with the model before weights are loaded. Throws as load_parameters(), and if
// stored uses of a tied parameter differ. Returns tensors that are neither in the model nor known
// buffers.
std::vector<std::string> check_checkpoint(const HfDirectory& directory, const ModelSpec& model);

}  // namespace sluice
