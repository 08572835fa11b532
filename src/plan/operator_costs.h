// A layer as a list of operators: the values between them and the bytes that each needs, from which
// its cost follows for whatever trains.
//
// Owns: the sum. Does not own: the needs of an operator (family/operators.h).
// Thread-safety: values, pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/model_spec.h"

namespace sluice::detail {

// The backward of an operator is there when what it reads needs a gradient ("flows") or one of its
// weights trains.
enum class Needed : std::uint8_t {
  kAlways,       // by every forward
  kForwardOnly,  // where there is no backward
  kBackward,
  kWeight,      // where its first weight trains
  kNoWeight,    // with a backward, but without that
  kTrains,      // where any of its weights does
  kFlows,       // where anything that it reads flows
  kFirstFlows,  // where the first value that it reads flows
  kSecondFlows,
  kFrozen  // with a backward, but without a weight that trains
};

// A rank that shares the layer (TensorParallel) has all of `bytes`, and its part of the others.
struct OperatorBytes {
  ShapePolynomial LayerCost::*field = nullptr;  // the sum that it is a part of
  Needed needed = Needed::kBackward;
  // Bytes of one name are there once, as large as the largest; those of others beside them.
  std::string name;
  ShapePolynomial bytes = {};
  ShapePolynomial columns = {};  // of its heads, its part of an inner width or of a vocabulary
  ShapePolynomial rows = {};     // with sequence parallelism of its rows, else all
};

struct Operator {
  std::vector<std::string> reads;  // values; "x" enters the layer
  std::string writes;
  std::vector<std::string> weights;  // by their names behind the layer's, as patterns
  ShapePolynomial forward_flops, input_flops, weight_flops;
  bool of_heads = false;  // without weights: its operations are divided where heads are
  // One of LibTorch's operators, whose W begins with what I has left of its weights.
  enum class Plain : std::uint8_t { kNo, kMatrix, kNorm } plain = Plain::kNo;
  double casted_weights = 0;
  std::vector<OperatorBytes> bytes;
};

}  // namespace sluice::detail

// LayerInfo::operators, in the order in which they run.
struct sluice::LayerOperators {
  std::vector<detail::Operator> all;
};

namespace sluice::detail {

// The part of a layer that a rank has.
struct LayerShare {
  double columns = 1, rows = 1;
  // True if a parameter is divided; the name is the part behind the layer's.
  std::function<bool(const std::string&)> divides = [](const std::string&) { return false; };
  // Under plain operators I leaves nothing to W of a divided matrix of several slices, whose
  // gradient is one, nor of a norm's weight that ranks sum.
  bool early_matrices = false, early_norms = false;
};

// trains: whether the parameter of this name behind the layer's does. flows: whether what enters
// the layer needs a gradient.
LayerCost cost_of(const LayerOperators& operators,
                  const std::function<bool(const std::string&)>& trains, bool flows,
                  const LayerShare& share = {});
// With all of the layer trained.
LayerCost cost_of(const LayerOperators& operators);

}  // namespace sluice::detail
