#include "parallel/tree_exchange.h"

#include <ATen/ATen.h>

#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "comm/sum_in_order.h"
#include "layer/call_place.h"
#include "plan/slices.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

std::vector<at::Tensor> rows_of_members(const at::Tensor& own, std::int64_t dim,
                                        const SliceGroup& tp) {
  std::vector<at::Tensor> pieces;
  pieces.reserve(static_cast<std::size_t>(tp.degree()));
  for (int member = 0; member < tp.degree(); ++member)
    pieces.push_back(part_of(own, dim, tp.range(own.size(dim), member)));
  return pieces;
}

constexpr const char* kAxis = "tp";

// Throws unless each rank's part fits its slices. All ranks see the same parts, so all throw.
void require_fitting(const std::vector<at::Tensor>& parts, std::int64_t dim, const SliceGroup& tp,
                     const std::string& call) {
  std::int64_t length = 0;
  for (const at::Tensor& part : parts) length += part.dim() > dim ? part.size(dim) : 0;
  bool fit = true;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TensorMeta expected = meta_of(parts.front());
    const TensorMeta found = meta_of(parts[i]);
    const auto along = static_cast<std::size_t>(dim);
    if (expected.sizes.size() > along)
      expected.sizes[along] = tp.range(length, static_cast<int>(i)).size;
    fit = fit && found == expected && found.sizes.size() > along;
    texts.push_back(formatted("{} on rank {}", to_text(found), tp.group().members()[i]));
  }
  if (fit) return;
  throw Error(ErrorKind::kInternal,
              {.what = formatted("parts of ranks do not fit together along dimension {}: {}", dim,
                                 join(texts, ", ")),
               .where = call,
               .remedy = "let every member make the same calls in the same order"});
}

}  // namespace

at::Tensor tree_sum(const std::vector<at::Tensor>& terms) {
  return terms.size() == 1 ? terms.front() : sum_in_tree(terms, terms.front().device());
}

at::Tensor tree_all_reduce(const at::Tensor& own, const SliceGroup& tp) {
  return start_tree_all_reduce(own, tp).wait();
}

at::Tensor tree_reduce_scatter(const at::Tensor& own, std::int64_t dim, const SliceGroup& tp) {
  return start_tree_reduce_scatter(own, dim, tp).wait();
}

Work<at::Tensor> start_tree_all_reduce(const at::Tensor& own, const SliceGroup& tp) {
  if (tp.degree() == 1) return Work<at::Tensor>([own] { return own; });
  const AxisPlace place(kAxis, tp.call());
  return tp.group().all_reduce(own, SumOrder::kTree);
}

Work<at::Tensor> start_tree_reduce_scatter(const at::Tensor& own, std::int64_t dim,
                                           const SliceGroup& tp) {
  if (tp.degree() == 1) return Work<at::Tensor>([own] { return own; });
  const AxisPlace place(kAxis, tp.call());
  return tp.group().reduce_scatter(rows_of_members(own, dim, tp), SumOrder::kTree);
}

std::vector<at::Tensor> gather_parts(const at::Tensor& part, std::int64_t dim,
                                     const SliceGroup& tp) {
  const AxisPlace place(kAxis, tp.call());
  std::vector<at::Tensor> parts = tp.group().all_gather(part).wait();
  require_fitting(parts, dim, tp, tp.call());
  return parts;
}

at::Tensor all_gather(const at::Tensor& part, std::int64_t dim, const SliceGroup& tp) {
  if (tp.degree() == 1) return part;
  const at::NoGradGuard no_grad;
  return at::cat(gather_parts(part, dim, tp), dim);
}

at::Tensor all_reduce_max(const at::Tensor& own, const SliceGroup& tp) {
  if (tp.degree() == 1) return own;
  const at::NoGradGuard no_grad;
  const AxisPlace place(kAxis, tp.call());
  at::Tensor largest;
  for (const at::Tensor& of_member : tp.group().all_gather(own).wait())
    largest = largest.defined() ? at::maximum(largest, of_member) : of_member;
  return largest;
}

std::vector<std::int64_t> slice_sizes(std::int64_t length, const SliceRange& slices) {
  std::vector<std::int64_t> sizes;
  for (int slice = slices.begin; slice < slices.end; ++slice)
    sizes.push_back(cut_of(length, {slice, slice + 1, slices.count}).size());
  return sizes;
}

std::int64_t dimension_of(std::int64_t dim, const at::Tensor& x) {
  if (dim >= -x.dim() && dim < x.dim()) return dim < 0 ? dim + x.dim() : dim;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("a tensor of {} dimensions has no dimension {}", x.dim(), dim),
               .where = "sluice/parts/tensor_parallel.h",
               .remedy = "give the dimension of rows as sequence_dim"});
}

std::int64_t dimension_of_rows(const at::Tensor& x, const SliceGroup& tp) {
  const std::int64_t dim = dimension_of(tp.sequence_dim(), x);
  if (dim + 1 < x.dim()) return dim;
  throw Error(ErrorKind::kUsage, {.what = formatted("dimension {} of {} has columns, not rows", dim,
                                                    shape_text(x.sizes().vec())),
                                  .where = "sluice/parts/tensor_parallel.h",
                                  .remedy = "give the dimension of rows as sequence_dim"});
}

at::Tensor part_of(const at::Tensor& x, std::int64_t dim, const IndexRange& range) {
  if (range.offset == 0 && range.size == x.size(dim)) return x;
  return x.narrow(dim, range.offset, range.size);
}

}  // namespace sluice::detail
