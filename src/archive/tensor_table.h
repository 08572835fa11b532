// Where the bytes of an archive's parameters, buffers and constants lie.
//
// Owns: the tables data/weights/*_config.json and data/constants/*_config.json, checked against the
// records. Does not own: reading bytes; pickled entries, which are never opened.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"
#include "archive/zip_file.h"

namespace sluice::detail {

// One for every parameter, buffer and constant that a graph reads, in the order of its inputs (the
// training graph's first), then what is in the tables besides, by name. root: the folder that all
// entries are in ("llama/"). Throws Error(kInput) for a tensor that no table has, whose table says
// another dtype or other sizes than the graph, which is pickled, whose record is missing, or whose
// elements are outside.
std::vector<GraphTensor> read_tensor_tables(const ZipFile& zip, const std::string& root,
                                            const std::string& model, const GraphModule& graph,
                                            const GraphModule* evaluation = nullptr);

}  // namespace sluice::detail
