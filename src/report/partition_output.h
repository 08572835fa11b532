// The output for a partition: of `sluice split`, and as "split" of `sluice plan`.
//
// Owns: its JSON object and its table. Does not own: computing it.
// shapes: of every stage, or empty where the sizes of a microbatch are not known.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "sluice/partition.h"

namespace sluice {

// Keys: docs/partition.md.
Json partition_json(const ModelSpec& model, const Partition& partition,
                    const std::vector<StageShape>& shapes);

// The table of stages, then cuts, weights and ties. Lines ending in '\n', each after `indent`.
std::string partition_text(const ModelSpec& model, const Partition& partition,
                           const std::vector<StageShape>& shapes, int width,
                           std::string_view indent = {});

}  // namespace sluice
