#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/published_directory.h"
#include "sluice/parts/saver.h"

namespace sluice {

// Commits a checkpoint on rank 0.
class Publication {
 public:
  // In marker mode, first renames a damaged checkpoint at the path. Throws Error(kCheckpoint).
  explicit Publication(SaveTarget target);

  const std::string& working() const { return directory_.working(); }
  void set_ties(std::map<std::string, std::string> ties) { target_.head.ties = std::move(ties); }
  // tensors: of all ranks. Throws Error(kCheckpoint), or Error(kInternal) for an invalid manifest.
  void commit(std::vector<SavedTensor> tensors);

 private:
  void add_file(const std::string& name, const std::string& text);
  void add_index_and_config();
  void add_tokenizer();

  SaveTarget target_;
  io::PublishedDirectory directory_;
};

}  // namespace sluice
