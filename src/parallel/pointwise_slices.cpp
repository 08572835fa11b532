#include "parallel/pointwise_slices.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "layer/operator_reader.h"

namespace sluice::detail {
namespace {

using Arguments = std::vector<c10::IValue>;

bool is_tensor(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

std::int64_t written_argument(const c10::OperatorHandle& op) {
  const auto& arguments = op.schema().arguments();
  const auto written = std::find_if(arguments.begin(), arguments.end(), [](const auto& argument) {
    return argument.alias_info() && argument.alias_info()->isWrite();
  });
  return written == arguments.end() ? -1 : written - arguments.begin();
}

std::vector<std::int64_t> memory_order(const at::Tensor& x) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.dim()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return x.stride(a) > x.stride(b); });
  return order;
}

// Concatenates results in their memory order, so that callers can view the whole like the plain
// operator's result.
at::Tensor joined(const std::vector<at::Tensor>& parts, std::int64_t dim) {
  if (parts.size() == 1) return parts.front();
  const std::vector<std::int64_t> order = memory_order(parts.front());
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  std::vector<at::Tensor> permuted;
  permuted.reserve(parts.size());
  for (const at::Tensor& part : parts) permuted.push_back(part.permute(order));
  return at::cat(permuted, back[static_cast<std::size_t>(dim)]).permute(back);
}

// Copies a slice that has gaps in memory, because a rank's only slice has none.
at::Tensor without_gaps(const at::Tensor& x) {
  return x.is_non_overlapping_and_dense() ? x : x.clone();
}

}  // namespace

std::vector<std::int64_t> pointwise_sizes(const c10::OperatorHandle& op, const Arguments& in) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (is_tensor(in[i]) && !op.schema().arguments()[i].is_out())
      sizes = at::infer_size(sizes, in[i].toTensor().sizes());
  }
  return sizes;
}

at::Tensor run_by_slices(const c10::OperatorHandle& op, const Arguments& in, std::int64_t dim,
                         const std::vector<std::int64_t>& slice_sizes) {
  const std::vector<std::int64_t> sizes = pointwise_sizes(op, in);
  const std::int64_t written = written_argument(op);
  if (written >= 0 && in[static_cast<std::size_t>(written)].toTensor().sizes() != sizes) return {};
  // indexed by [argument][slice]
  std::vector<std::vector<at::Tensor>> read(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!is_tensor(in[i])) continue;
    const at::Tensor x = in[i].toTensor();
    const std::int64_t along = dim - (std::ssize(sizes) - x.dim());
    if (along < 0 || x.size(along) != sizes[static_cast<std::size_t>(dim)]) {
      read[i].assign(slice_sizes.size(), x);
    } else if (slice_sizes.size() == 1) {
      read[i] = {x};
    } else {
      read[i] = x.split_with_sizes(slice_sizes, along);
    }
  }
  std::vector<at::Tensor> parts;
  for (std::size_t slice = 0; slice < slice_sizes.size(); ++slice) {
    Arguments of_call = in;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (read[i].empty()) continue;
      const at::Tensor& x = read[i][slice];
      of_call[i] = static_cast<std::int64_t>(i) == written ? x.clone() : without_gaps(x);
    }
    at::Tensor part = call_operator(op, std::move(of_call));
    if (part.requires_grad()) {
      part.register_hook([](const at::Tensor& gradient) {
        return gradient.defined() ? without_gaps(gradient) : gradient;
      });
    }
    parts.push_back(std::move(part));
  }
  const at::Tensor result = joined(parts, dim);
  return written < 0 ? result : in[static_cast<std::size_t>(written)].toTensor().copy_(result);
}

}  // namespace sluice::detail
