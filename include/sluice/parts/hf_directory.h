// Hugging Face directories: config.json and safetensors, one file or shards with an index.
//
// Owns: finding and checking the files, lookup by full name, loading local parameters.
// Does not own: the format of one file (safetensors.h), what the model is (model_spec.h), writing
//   one (a checkpoint is one: checkpoint.h).
//
// Invariants:
//  1. Opening reads headers only; loading reads the tensors that are asked for and no others.
//  2. Pickles are never opened.
// Thread-safety: HfDirectory may be shared.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/error.h"
#include "sluice/layer.h"
#include "sluice/model_spec.h"
#include "sluice/parts/safetensors.h"

namespace sluice {

// ---- reading ----

struct TensorSource {
  const SafetensorsReader* file = nullptr;
  const SafetensorsEntry* entry = nullptr;  // entry->name: as it is stored
};

class HfDirectory {
 public:
  // Throws Error(kInput): no directory, no safetensors (with advice when there are pickles), a bad
  // index, shard names that are paths, missing shards, a tensor that its shard does not have or
  // that two shards have.
  explicit HfDirectory(std::string path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;  // as they are stored, sorted
  // By full name. A checkpoint of the bare model, whose names lack the family's leading
  // "model." or "transformer.", answers to the full name too. Pointers live as long as the
  // directory.
  std::optional<TensorSource> find(std::string_view name) const;
  // Throws Error(kInput) with the nearest name, or naming the layer that is missing as a whole.
  // others: names that are looked up too, none of which is a misspelt `name`.
  TensorSource locate(std::string_view name, const std::vector<std::string>& others = {}) const;

 private:
  std::optional<TensorSource> find_stored(std::string_view name) const;

  std::string path_;
  std::vector<SafetensorsReader> shards_;
  std::vector<std::pair<std::string, std::uint32_t>> by_name_;  // sorted; index into shards_
};

// Fills every tensor of `parameters` (those of this rank, or its slices of them) by full name,
// converting floating dtypes.
// Uses of a tied parameter are all filled from the first that the checkpoint has, in the order of
// `model` (an empty one for modules of one's own), so they are equal. Throws Error(kInput) naming
// file, tensor, expected and found shape, or the nearest name of a missing one.
void load_parameters(const HfDirectory& directory, std::vector<ParameterInfo>& parameters,
                     const ModelSpec& model);

// Fills buffers (ParameterInfo::tensor) of any type by full name. Throws Error(kInput) as
// load_parameters() does, and for another type than the stored one, but for floating ones.
void load_buffers(const HfDirectory& directory, std::vector<ParameterInfo>& buffers);

// For Model::initialization: the stored value of every name, as load_parameters() reads it. Names
// that match one of the patterns `own` ("*.adapter_*") may be missing, and are then left as they
// are: drawn as their layers say. Ranks may share it. Throws what HfDirectory's constructor does;
// the function as load_parameters().
std::function<void(const std::string& name, at::Tensor& value)> stored_values(
    const std::string& path, const std::vector<std::string>& own = {});

// Compares headers with the whole model, for one rank to do before any weights are loaded: throws
// Error(kInput) as load_parameters would, and for uses of a tied parameter that are all stored but
// differ. Returns the tensors that the model has no place for, but for those known to be buffers.
std::vector<std::string> check_checkpoint(const HfDirectory& directory, const ModelSpec& model);

// ---- writing ----

inline constexpr std::uint64_t kMaxShardBytes = std::uint64_t{5} << 30;

// The most that such a directory takes on disk: the weights of `model` with their headers and
// index, config.json, the tokenizer files of source_directory ("" for none).
std::uint64_t hf_directory_bytes(const ModelSpec& model, const std::string& source_directory);

// That `folder` exists and can be written to, or can be created, that its disk has `bytes` left and
// that this process may write files of largest_file bytes (ulimit -f), without leaving anything
// behind. Throws Error(kind) naming the folder and the ancestor that stands in the way.
void check_writable(const std::string& folder, ErrorKind kind = ErrorKind::kCheckpoint,
                    std::uint64_t bytes = 0, std::uint64_t largest_file = 1);

}  // namespace sluice
