// Loads weights from Hugging Face directories: config.json and safetensors, one file or shards.
//
// Opening reads headers only, and loading reads only the requested tensors. Pickles are never
// opened. Threads may share an HfDirectory.
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
  // Throws Error(kInput) if the directory or a file in it is missing or wrong.
  explicit HfDirectory(std::string path);

  const std::string& path() const;
  std::vector<std::string> names() const;  // sorted
  // File and position of each tensor (src/io/hf_shards.h).
  const HfShards& shards() const { return *shards_; }

 private:
  std::shared_ptr<const HfShards> shards_;
};

// Fills this rank's parameters or slices by full name, and converts floating dtypes. All uses of a
// tied parameter get the value of the first use in `model` that is stored. For your own modules,
// pass an empty ModelSpec. Throws Error(kInput) for a missing tensor or another shape.
void load_parameters(const HfDirectory& directory, std::vector<ParameterInfo>& parameters,
                     const ModelSpec& model);

// Fills buffers by full name. Throws like load_parameters(), and for another dtype unless both are
// floating-point.
void load_buffers(const HfDirectory& directory, std::vector<ParameterInfo>& buffers);

// Returns a function for Model::initialization that sets each parameter to its stored value.
// Parameters that match a pattern in `own` ("*.adapter_*") may be missing, and then keep the drawn
// values. Ranks may share the function. Throws like HfDirectory() and, in the function,
// load_parameters().
std::function<void(const std::string& name, at::Tensor& value)> stored_values(
    const std::string& path, const std::vector<std::string>& own = {});

// Like stored_values(), for a model with an adapter (lora.h), which is read from the PEFT directory
// `adapter`. If `adapter` is empty, adapter parameters keep their drawn values.
std::function<void(const std::string& name, at::Tensor& value)> stored_values_with_adapter(
    const std::string& path, const std::string& adapter = "");

}  // namespace sluice
