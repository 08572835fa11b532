// Computes a layer's memory and FLOPs from its operators, depending on which parameters train.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice::detail {

// The condition under which an operator needs some bytes. A value "flows" if its gradient is
// needed. An operator has a backward if an input flows or a weight trains.
enum class Needed : std::uint8_t {
  kAlways,
  kForwardOnly,  // only without a backward
  kBackward,
  kWeight,      // the first weight trains
  kNoWeight,    // it has a backward, but the first weight is frozen
  kTrains,      // any weight trains
  kFlows,       // any input flows
  kFirstFlows,  // the first input flows
  kSecondFlows,
  kFrozen  // it has a backward, but no weight trains
};

// A tensor-parallel rank needs all of `bytes`, but only its part of `columns` and `rows`.
struct OperatorBytes {
  ShapePolynomial LayerCost::*field = nullptr;
  Needed needed = Needed::kBackward;
  // Entries of a layer that have the same name share memory, so only the largest of them counts.
  std::string name;
  ShapePolynomial bytes = {};
  ShapePolynomial columns = {};  // divided with heads, inner width or vocabulary
  ShapePolynomial rows = {};     // divided by sequence parallelism
};

struct Operator {
  std::vector<std::string> reads;  // "x" is the layer's input
  std::string writes;
  std::vector<std::string> weights;  // name patterns, relative to the layer
  ShapePolynomial forward_flops, input_flops, weight_flops;
  bool of_heads = false;  // divided like the attention heads, although it has no weights
  // For plain LibTorch operators, see LayerShare::early_matrices.
  enum class Plain : std::uint8_t { kNo, kMatrix, kNorm } plain = Plain::kNo;
  double casted_weights = 0;
  std::vector<OperatorBytes> bytes;
};

}  // namespace sluice::detail

struct sluice::LayerOperators {
  std::vector<detail::Operator> all;
};

namespace sluice::detail {

struct LayerShare {
  double columns = 1, rows = 1;
  // Takes a parameter name relative to the layer.
  std::function<bool(const std::string&)> divides = [](const std::string&) { return false; };
  // Plain operators compute some weight gradients already in I instead of W. early_matrices:
  // divided matrices, if a rank has several slices. early_norms: norm weights that ranks sum.
  bool early_matrices = false, early_norms = false;
};

// `trains` receives a parameter name relative to the layer. `flows`: the layer's input needs a
// gradient.
LayerCost cost_of(const LayerOperators& operators,
                  const std::function<bool(const std::string&)>& trains, bool flows,
                  const LayerShare& share = {});
LayerCost cost_of(const LayerOperators& operators);

}  // namespace sluice::detail
