// Computes a layer's memory and FLOPs from its operators.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice::detail {

// When an operator needs some bytes. An input "flows" if its gradient is needed. An operator has a
// backward if an input flows or a weight is trained.
enum class Needed : std::uint8_t {
  kAlways,
  kForwardOnly,  // only if the operator has no backward
  kBackward,
  kWeight,      // the operator's first weight is trained
  kNoWeight,    // the operator has a backward, but its first weight is frozen
  kTrains,      // any weight is trained
  kFlows,       // any input flows
  kFirstFlows,  // the first input flows
  kSecondFlows,
  kFrozen  // it has a backward, but no weight trains
};

// A tensor-parallel rank needs all of `bytes`, but only its share of `columns` and `rows`.
struct OperatorBytes {
  ShapePolynomial LayerCost::*field = nullptr;
  Needed needed = Needed::kBackward;
  // Names the memory of this entry. Entries of one name share memory, so only the entry with the
  // most bytes in a layer counts.
  std::string name;
  ShapePolynomial bytes = {};
  ShapePolynomial columns = {};  // divided with attention heads, MLP width or vocabulary
  ShapePolynomial rows = {};     // divided by sequence parallelism
};

struct Operator {
  std::vector<std::string> reads;  // "x" is the layer's input
  std::string writes;
  std::vector<std::string> weights;  // name patterns, without the layer's prefix
  ShapePolynomial forward_flops, input_flops, weight_flops;
  bool of_heads = false;  // divided like attention heads, although without weights
  // Computed by each tensor-parallel slice on its own rows, with whole weights (routers, experts).
  bool of_rows = false;
  int num_experts = 0;  // `weights` are patterns of this many experts
  int experts_per_token = 0;
  // Whether this is LibTorch's own matrix product or norm. LayerShare::early_matrices needs it.
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
  // Whether a parameter, named without the layer's prefix, is divided among ranks.
  std::function<bool(const std::string&)> divides = [](const std::string&) { return false; };
  // LibTorch's own operators compute some weight gradients together with the input gradient.
  // early_matrices: those of divided matrices, if a rank has several slices. early_norms: those of
  // norm weights that ranks sum.
  bool early_matrices = false, early_norms = false;
};

// `trains` returns whether a parameter (without the layer's prefix) is trained. `flows`: the
// layer's input needs a gradient.
LayerCost cost_of(const LayerOperators& operators,
                  const std::function<bool(const std::string&)>& trains, bool flows,
                  const LayerShare& share = {});
LayerCost cost_of(const LayerOperators& operators);

// Whether each slice of a rank has its own gradient sum of a parameter (Operator::of_rows).
bool has_gradient_of_each_slice(const LayerInfo& layer, const std::string& parameter);

}  // namespace sluice::detail
