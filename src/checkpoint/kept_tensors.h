// Tensors of model.path that no layer has: the encoders beside a language model, which every
// checkpoint of it holds as they are.
//
// Owns: which they are, their files in a checkpoint, the copy. Does not own: what is a part of a
// whole (nested.h). They are among the manifest's weights, in files
// "kept-00001-of-0000N.safetensors". Thread-safety: const members may be called from any thread.
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

// file: of a SavedTensor among the weights.
bool is_kept_file(const std::string& file);

class KeptTensors {
 public:
  // model: the language model in `source`. Throws Error(kInput).
  KeptTensors(const std::string& source, const ModelSpec& model);

  bool empty() const { return tensors_.empty(); }
  std::uint64_t bytes() const;
  // Byte for byte, without tensors in memory, into files of at most max_file_bytes unless one
  // tensor is larger. Throws Error(kCheckpoint).
  std::vector<SavedTensor> copy_into(const std::string& directory,
                                     std::uint64_t max_file_bytes) const;

 private:
  HfDirectory source_;
  std::vector<TensorSource> tensors_;  // by name
};

// nullptr: a model that is no part of a whole, a source without weights, no parameter of it that is
// saved. config_text, source_directory: as SaveTarget has them; saved: names of the parameters.
// Throws Error(kInput).
std::shared_ptr<const KeptTensors> tensors_to_keep(const std::string& config_text,
                                                   const std::string& source_directory,
                                                   const std::set<std::string>& saved);

}  // namespace sluice
