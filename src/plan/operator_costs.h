// Computes the memory and FLOPs of a layer from its operators, depending on which parameters train.
// family/operators.h lists the operators of each kind of layer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice::detail {

// When an operator needs certain bytes. A value "flows" if a gradient must be computed for it. An
// operator has a backward if one of its inputs flows or one of its weights trains.
enum class Needed : std::uint8_t {
  kAlways,       // in every forward
  kForwardOnly,  // only without a backward
  kBackward,
  kWeight,      // if the first weight trains
  kNoWeight,    // with a backward, if the first weight does not train
  kTrains,      // if any weight trains
  kFlows,       // if any input flows
  kFirstFlows,  // if the first input flows
  kSecondFlows,
  kFrozen  // with a backward, if no weight trains
};

// With tensor parallelism a rank needs all of `bytes`, but only its part of `columns` and `rows`.
struct OperatorBytes {
  ShapePolynomial LayerCost::*field = nullptr;  // the sum that these bytes are added to
  Needed needed = Needed::kBackward;
  // Within one layer, entries with the same name share memory, so only the largest counts. Entries
  // with different names add up.
  std::string name;
  ShapePolynomial bytes = {};
  ShapePolynomial columns = {};  // divided with the heads, the inner width or the vocabulary
  ShapePolynomial rows = {};     // divided only with sequence parallelism
};

struct Operator {
  std::vector<std::string> reads;  // value names; "x" is the layer's input
  std::string writes;
  std::vector<std::string> weights;  // name patterns, relative to the layer
  ShapePolynomial forward_flops, input_flops, weight_flops;
  bool of_heads = false;  // has no weights, but is divided with the heads
  // A plain LibTorch operator starts its W with the weight memory that its I left behind.
  enum class Plain : std::uint8_t { kNo, kMatrix, kNorm } plain = Plain::kNo;
  double casted_weights = 0;
  std::vector<OperatorBytes> bytes;
};

}  // namespace sluice::detail

// LayerInfo::operators, in execution order.
struct sluice::LayerOperators {
  std::vector<detail::Operator> all;
};

namespace sluice::detail {

// The part of a layer that one rank computes.
struct LayerShare {
  double columns = 1, rows = 1;
  // True if the parameter is divided. The name is relative to the layer.
  std::function<bool(const std::string&)> divides = [](const std::string&) { return false; };
  // Whether I already computes certain weight gradients, so that no memory waits for W. With plain
  // operators this holds for a divided matrix if a rank has several slices, because their gradient
  // is computed as one. It also holds for norm weights that ranks sum.
  bool early_matrices = false, early_norms = false;
};

// trains(name) is true if the parameter trains; the name is relative to the layer. `flows` is true
// if a gradient of the layer's input is needed.
LayerCost cost_of(const LayerOperators& operators,
                  const std::function<bool(const std::string&)>& trains, bool flows,
                  const LayerShare& share = {});
// The cost if everything trains.
LayerCost cost_of(const LayerOperators& operators);

}  // namespace sluice::detail
