// Copies tensors of the source model that no layer has, such as encoders, into each checkpoint, in
// files "kept-00001-of-0000N.safetensors".
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/hf_shards.h"
#include "sluice/checkpoint.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {

bool is_kept_file(const std::string& file);

class KeptTensors {
 public:
  // model: the trained part of the model in `source`. Throws Error(kInput).
  KeptTensors(const std::string& source, const ModelSpec& model);

  bool empty() const { return tensors_.empty(); }
  std::uint64_t bytes() const;
  // Copies the tensors without loading them. A file exceeds max_file_bytes only if it has a single
  // tensor. Throws Error(kCheckpoint).
  std::vector<SavedTensor> copy_into(const std::string& directory,
                                     std::uint64_t max_file_bytes) const;

 private:
  HfDirectory source_;
  std::vector<TensorSource> tensors_;
};

// Returns the source checkpoint's tensors that a save must copy because `part`, the trained part of
// a larger model, lacks them. Returns nullptr if there are none, if the trained model is not a part
// (null), or if `saved` has none of the part's parameters. Throws Error(kInput) if source_directory
// cannot be read.
std::shared_ptr<const KeptTensors> tensors_to_keep(const ModelSpec* part,
                                                   const std::string& source_directory,
                                                   const std::set<std::string>& saved);

}  // namespace sluice
