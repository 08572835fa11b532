// Finds tensors in the safetensors files of a Hugging Face directory. Threads may share an object.
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
  explicit HfShards(std::string path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;
  // Finds a tensor by full name. In a checkpoint of the bare model, names lack the prefix "model."
  // or "transformer.". Pointers live as long as this object.
  std::optional<TensorSource> find(std::string_view name) const;
  // Finds a tensor or throws Error(kInput), which suggests the closest name that is not in
  // `others`.
  TensorSource locate(std::string_view name, const std::vector<std::string>& others = {}) const;

 private:
  std::optional<TensorSource> find_stored(std::string_view name) const;
  // Whether any tensor belongs to the layer, with or without a prefix.
  bool has_layer(const std::string& layer) const;

  std::string path_;
  std::vector<SafetensorsReader> shards_;
  std::vector<std::pair<std::string, std::uint32_t>> by_name_;
};

// Compares file headers with the model before weights are loaded. Throws like load_parameters(),
// and if a tied parameter is stored with different values. Returns tensors that are neither in the
// model nor known buffers.
std::vector<std::string> check_checkpoint(const HfDirectory& directory, const ModelSpec& model);

}  // namespace sluice
