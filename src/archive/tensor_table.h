#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"
#include "archive/zip_file.h"

namespace sluice::detail {

// Finds the bytes of tensors from data/weights/*_config.json and data/constants/*_config.json. The
// graphs' inputs come first, in order. `root` is the folder of all entries. Throws Error(kInput)
// for missing, pickled or short tensors, and for sizes or dtypes that differ from the graph.
std::vector<GraphTensor> read_tensor_tables(const ZipFile& zip, const std::string& root,
                                            const std::string& model, const GraphModule& graph,
                                            const GraphModule* evaluation = nullptr);

}  // namespace sluice::detail
