// The operators of exported graphs: operations, bytes that each keeps for its backward and needs
// while it runs, of LibTorch's on the CPU.
//
// Owns: a row for each operator of ATen that exported models call; which of their results are
// views, with what strides. Does not own: the graph (src/archive), the sum over a layer, for
// whatever trains (plan/operator_costs.h); the operators of native families (operators.h).
// All sizes are numbers: of one microbatch, so that costs are constants.
// Thread-safety: values, pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "plan/operator_costs.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct CallTensor {
  std::string name;  // name of its storage: views of one tensor share it
  std::string dtype;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // in elements; empty: contiguous
  std::int64_t storage_bytes = -1;    // -1: as its sizes say
  std::string weight;                 // name in the layer of the parameter that it is; "": of none
  bool is_made = false;  // made of `weight` alone (1 + weight, a cast), with a storage of its own
  bool is_free = false;  // an input, a buffer, a constant or made of these: never has a gradient

  std::int64_t numel() const;
  double bytes() const;  // bytes of its storage
  bool is_floating() const;
};

// An argument that is no tensor.
using CallValue = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                               std::vector<std::int64_t>>;

struct OperatorCall {
  std::string target;  // "aten.linear.default"
  // By argument, as the schema of the operator names it; several of a list of tensors.
  std::vector<std::pair<std::string, std::vector<CallTensor>>> tensors;
  std::vector<std::pair<std::string, CallValue>> values;  // where one is not given, its default
  std::vector<CallTensor> results;                        // those of a list one after another
  bool without_gradient = false;                          // runs where none is recorded

  const CallTensor* tensor(std::string_view argument, std::size_t index = 0) const;
  std::int64_t integer(std::string_view argument, std::int64_t otherwise) const;
  double real(std::string_view argument, double otherwise) const;
  bool flag(std::string_view argument, bool otherwise) const;
  std::string text(std::string_view argument) const;
  std::vector<std::int64_t> integers(std::string_view argument) const;
};

struct OperatorRow {
  // A kept tensor has the name of its storage, so that it counts once if several operators keep it;
  // the gradient of a value has "d " before the name. There are several operators if gradients of
  // the operands need different tensors.
  std::vector<Operator> operators;
  bool known = true;  // false: without a row of its own, a pass over its tensors is counted
  // Bytes beside arguments and results while it runs, and while its backward does.
  double in_forward = 0, in_backward = 0;
};

// target: "aten.linear.default", "_operator.mul"; any overload of an operator that has a row.
bool has_row(std::string_view target);

// call: with complete results (settle_results()). precision: parameters' type is that of the
// tensors; where it casts, products are of its other type.
OperatorRow row_of(const OperatorCall& call, const Precision& precision);

// The kernel that LibTorch's CPU takes for scaled_dot_product_attention. The one that never has
// all scores takes neither dropout nor a mask with a gradient, four dimensions and heads of one
// width, whose channels lie one beside the other. All else is written down, in float32.
bool is_blockwise_attention(const OperatorCall& call);

// How the result of an einsum lies in memory: that of a product of matrices, turned.
std::vector<std::int64_t> einsum_strides(const OperatorCall& call);

// Sets the results of a call, beside sizes: types under autocast, strides, and the storage: that of
// an argument if the result is a view or written in place, else its own `bytes` under its own name.
// Also sets the origin of a result: weight, is_made, is_free.
void settle_results(OperatorCall& call, const Precision& precision);

// Throws Error(kInput) without a place for sizes that no tensor has: row_of() and settle_results()
// do. Both throw Error(kUsage) for an unknown dtype.
void check_sizes(const OperatorCall& call);

// The tensor among the arguments with whose storage the result at this index is; nullptr: its own.
const CallTensor* viewed_argument(const OperatorCall& call, std::size_t result = 0);

// True where all dimensions can be merged to these sizes without a copy.
bool is_viewable(const CallTensor& tensor, const std::vector<std::int64_t>& sizes);
std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes);

// The operators of a layer: calls in their order, whose results are settled here. Values that leave
// the layer live beyond it; what is free and enters it is there once for all that read it, and does
// not count here. Adds to the rows what only their order tells: gradients that are one tensor, what
// a forward and the beginning of a backward need beside what is kept.
LayerOperators operators_of(std::vector<OperatorCall>& calls,
                            const std::vector<std::string>& leaving, const Precision& precision);

}  // namespace sluice::detail
