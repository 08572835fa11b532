// Hugging Face directories: config.json and safetensors, one file or shards with an index.
//
// Invariants:
//  1. Opening reads headers only; loading reads the requested tensors and no others.
//  2. Pickles are never opened.
// Thread-safety: HfDirectory may be shared.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/layer.h"
#include "sluice/model_spec.h"

namespace sluice {

class HfShards;

class HfDirectory {
 public:
  // Throws Error(kInput): no directory, no safetensors (with advice when there are pickles), a bad
  // index, shard names that are paths, missing shards, a tensor that its shard lacks, or that two
  // shards have.
  explicit HfDirectory(std::string path);

  const std::string& path() const;
  std::vector<std::string> names() const;  // names as stored, sorted
  // The file and place of each tensor, by full name: src/io/hf_shards.h.
  const HfShards& shards() const { return *shards_; }

 private:
  std::shared_ptr<const HfShards> shards_;
};

// Fills every tensor of `parameters` (those of this rank, or its slices of them) by full name,
// converting floating dtypes. All uses of a tied parameter are filled from the first that the
// checkpoint has, in the order of `model` (an empty ModelSpec for your own modules), so they are
// equal. Throws Error(kInput) naming file, tensor, expected and found shape, or the nearest name of
// a missing one.
void load_parameters(const HfDirectory& directory, std::vector<ParameterInfo>& parameters,
                     const ModelSpec& model);

// Fills buffers (ParameterInfo::tensor) of any type by full name. Throws Error(kInput) as
// load_parameters() does, and for a type other than the stored one, unless both are floating.
void load_buffers(const HfDirectory& directory, std::vector<ParameterInfo>& buffers);

// A function for Model::initialization: sets the stored value of every name, as load_parameters()
// reads it. Names that match one of the patterns `own` ("*.adapter_*") may be missing, and then
// keep the value that their layers draw. Ranks may share the function. Throws what HfDirectory's
// constructor throws; the function throws what load_parameters() throws.
std::function<void(const std::string& name, at::Tensor& value)> stored_values(
    const std::string& path, const std::vector<std::string>& own = {});

// The same for a model with an adapter (lora.h): weights of the Hugging Face directory `path`, and
// the adapter of the PEFT directory `adapter`. Without one the adapter keeps what its layers draw.
std::function<void(const std::string& name, at::Tensor& value)> stored_values_with_adapter(
    const std::string& path, const std::string& adapter = "");

}  // namespace sluice
