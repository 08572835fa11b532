// The files of a Hugging Face directory, and which tensor is in which of them.
//
// Owns: the open files, lookup by full name. Does not own: loading (hf_directory.h), the format of
// one file (safetensors.h). Thread-safety: may be shared.
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
  const SafetensorsEntry* entry = nullptr;  // entry->name: as it is stored
};

class HfShards {
 public:
  // Throws what HfDirectory's constructor says.
  explicit HfShards(std::string path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;
  // By full name. A checkpoint of the bare model, whose names lack the family's leading
  // "model." or "transformer.", answers to the full name too. Pointers live as long as this.
  std::optional<TensorSource> find(std::string_view name) const;
  // Throws Error(kInput) with the nearest name, or naming the layer that is missing as a whole.
  // others: names that are looked up too, none of which is a misspelt `name`.
  TensorSource locate(std::string_view name, const std::vector<std::string>& others = {}) const;

 private:
  std::optional<TensorSource> find_stored(std::string_view name) const;
  // Whether any tensor belongs to the layer, with or without the base model's prefix.
  bool has_layer(const std::string& layer) const;

  std::string path_;
  std::vector<SafetensorsReader> shards_;
  std::vector<std::pair<std::string, std::uint32_t>> by_name_;  // sorted; index into shards_
};

// Compares headers with the whole model, for one rank to do before any weights are loaded: throws
// Error(kInput) as load_parameters would, and for uses of a tied parameter that are all stored but
// differ. Returns the tensors that the model has no place for, but for those known to be buffers.
std::vector<std::string> check_checkpoint(const HfDirectory& directory, const ModelSpec& model);

}  // namespace sluice
