// Rank 0's part of a save: the directory, its files without tensors, the manifest, the commit.
// Thread-safety: one thread at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/published_directory.h"
#include "sluice/parts/saver.h"

namespace sluice {

class Publication {
 public:
  // Makes the directory to write into. In marker mode a checkpoint that is there and does not
  // verify goes first. Throws Error(kCheckpoint).
  explicit Publication(SaveTarget target);

  const std::string& working() const { return directory_.working(); }
  void set_ties(std::map<std::string, std::string> ties) { target_.head.ties = std::move(ties); }
  // tensors: of all ranks, written and flushed. Throws Error(kCheckpoint); Error(kInternal) for
  // tensors that make no checkpoint.
  void commit(std::vector<SavedTensor> tensors);

 private:
  void add_file(const std::string& name, const std::string& text);
  void add_index_and_config();
  void add_tokenizer();

  SaveTarget target_;
  io::PublishedDirectory directory_;
};

}  // namespace sluice
