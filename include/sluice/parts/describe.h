// What layers of one's own are for the plan: their description, measured.
//
// Owns: describe(), from LayerSpecs to the ModelSpec that partition and prediction take.
// Does not own: families, which know theirs without running anything (model_spec.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sluice/layer.h"
#include "sluice/model_spec.h"

namespace sluice {

// A batch's inputs by name; the first size of each is the number of rows.
using BatchMetas = std::vector<std::pair<std::string, TensorMeta>>;

// Makes one layer after the other, draws its weights, and runs it as a stage of its own, forward
// and backward, on batches of these metas and of twice the rows (integers are 0, floats 1).
//
//  parameters  as Chunk names them; frozen ones too.
//  writes      sizes with the rows of the microbatch where the first size is that of the rows; all
//              others are those of these metas. A value that was not there has no elements.
//  cost        LayerSpec::cost if given (then a layer with a shape function is not run), else a
//              line in rows through the two runs, for the length of these metas. FLOPs: products of
//              matrices, convolutions and attention of the forward; of the backward, one product
//              for each operand that needs a gradient, a parameter's being the weight's. Bytes:
//              what LibTorch's allocators have handed out in the layer and not got back: what is
//              saved for the backward, input and output included where they are, never parameters
//              and accumulators. The loss is nobody's. Nodes of fused operators (ops.h) do their
//              products unseen: native families are described with LayerOptions::fused off.
//  roles       LayerSpec::role.
//
// Runs the modules: buffers such as running statistics change. Never holds more than one layer.
// Batch inputs are on the device of the layer's parameters. Throws what layers throw, and
// Error(kUsage) for metas without rows or a value that nobody writes. Not for a thread whose memory
// a ledger counts.
ModelSpec describe(const std::vector<LayerSpec>& layers, const BatchMetas& batch);

// What layers say of themselves, with nothing made or run: names, roles, values that they read and
// write, stated costs, and of parameters those that LayerSpec::ties names. Sizes are not known, so
// this is enough for a partition by counts or names and for its program, not for a prediction of
// memory.
ModelSpec describe(const std::vector<LayerSpec>& layers);

}  // namespace sluice
