// Costs of operators in exported graphs on LibTorch's CPU backend, per microbatch: operations,
// bytes saved for the backward, temporary memory. Also determines views and strides.
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
  std::string name;  // storage, shared by all views
  std::string dtype;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // in elements; empty: contiguous
  std::int64_t storage_bytes = -1;    // -1: computed from `sizes`
  std::string weight;                 // the parameter's name in the layer, or ""
  bool is_made = false;               // computed from `weight` alone (1 + weight, a cast)
  bool is_free = false;               // input, buffer, constant or their result: no gradient

  std::int64_t numel() const;
  double bytes() const;
  bool is_floating() const;
};

using CallValue = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                               std::vector<std::int64_t>>;

struct OperatorCall {
  std::string target;  // "aten.linear.default"
  // By argument name. A tensor list has several entries.
  std::vector<std::pair<std::string, std::vector<CallTensor>>> tensors;
  std::vector<std::pair<std::string, CallValue>> values;  // without arguments at their default
  std::vector<CallTensor> results;                        // a list of tensors is flattened
  bool without_gradient = false;                          // runs without recording gradients

  const CallTensor* tensor(std::string_view argument, std::size_t index = 0) const;
  std::int64_t integer(std::string_view argument, std::int64_t otherwise) const;
  double real(std::string_view argument, double otherwise) const;
  bool flag(std::string_view argument, bool otherwise) const;
  std::string text(std::string_view argument) const;
  std::vector<std::int64_t> integers(std::string_view argument) const;
};

struct OperatorRow {
  // Saved tensors are named by storage, so that each counts once, and gradients "d " + value. A
  // call becomes several operators if its operands' gradients need different tensors.
  std::vector<Operator> operators;
  bool known = true;  // false: no rule, so one pass over the tensors
  double in_forward = 0, in_backward = 0;
};

// Whether costs of `target` ("aten.linear.default") or another overload are known.
bool has_row(std::string_view target);

// Precondition: settle_results(), below, has set the fields of the call's results.
OperatorRow row_of(const OperatorCall& call, const Precision& precision);

// Whether LibTorch's CPU backend uses the attention kernel that never stores all scores. It
// requires four dimensions, equal head widths, contiguous channels, no dropout and no mask with a
// gradient. Other kernels store float32 scores.
bool is_blockwise_attention(const OperatorCall& call);

std::vector<std::int64_t> einsum_strides(const OperatorCall& call);

// Sets all fields of the results except `sizes`. Views and in-place results share the argument's
// storage.
void settle_results(OperatorCall& call, const Precision& precision);

// Throws Error(kInput), without a place, for impossible sizes. So do row_of() and settle_results(),
// which throw Error(kUsage) for unknown dtypes.
void check_sizes(const OperatorCall& call);

// Returns the argument whose storage the result shares, or nullptr.
const CallTensor* viewed_argument(const OperatorCall& call, std::size_t result = 0);

bool is_viewable(const CallTensor& tensor, const std::vector<std::int64_t>& sizes);
std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes);

// Calls settle_results() for each call. Values in `leaving` outlive the layer. Gradient-free inputs
// are not counted, because all layers share them.
LayerOperators operators_of(std::vector<OperatorCall>& calls,
                            const std::vector<std::string>& leaving, const Precision& precision);

}  // namespace sluice::detail
