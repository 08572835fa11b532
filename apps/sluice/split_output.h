// What `sluice split` prints.
//
// Owns: the JSON object and the table of a partition. Does not own: computing it.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "sluice/partition.h"

namespace sluice {

struct SplitResult {
  ModelSpec model;  // without parameters: only a number of layers
  std::string convention;
  Partition partition;
  std::vector<StageShape> shapes;  // empty: not asked for
  std::string note;                // for people, under the table
};

// One line. Keys: docs/partition.md.
std::string split_json(const SplitResult& result);
std::string split_text(const SplitResult& result);

}  // namespace sluice
