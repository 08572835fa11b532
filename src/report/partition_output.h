// `shapes` has one entry per stage, or is empty if microbatch sizes are unknown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "sluice/partition.h"

namespace sluice {

Json partition_json(const ModelSpec& model, const Partition& partition,
                    const std::vector<StageShape>& shapes);

std::string partition_text(const ModelSpec& model, const Partition& partition,
                           const std::vector<StageShape>& shapes, int width,
                           std::string_view indent = {});

}  // namespace sluice
