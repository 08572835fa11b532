// The mappings as autograd functions. An exchange in one direction is a copy in the other
// (arXiv:1909.08053, f and g; arXiv:2205.05198, g and its conjugate along the sequence).
//
//                          forward                  backward
//   copy_to                x for each slice         tree, all-reduce
//   reduce_from            tree, all-reduce         dy for each slice
//   gather_from_sequence   all-gather, each slice   tree, reduce-scatter
//   reduce_scatter_to_..   tree, reduce-scatter     all-gather, each slice
//   scatter_to             own part                 all-gather
//   gather_from            all-gather               own part
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "base/format.h"
#include "layer/call_place.h"
#include "parallel/held_group.h"
#include "parallel/tree_exchange.h"
#include "sluice/error.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice {
namespace {

using detail::held;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<at::Tensor> for_each_slice(const at::Tensor& x, const SliceGroup& tp) {
  std::vector<at::Tensor> copies;
  for (int slice = 0; slice < tp.slices().size(); ++slice) copies.push_back(x.alias());
  return copies;
}

bool is_alone(const SliceGroup& tp) { return tp.slices().count == 1; }

struct Fan : torch::autograd::Function<Fan> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const SliceGroup& tp,
                               bool rows) {
    detail::hold(context, tp);
    context->saved_data["rows"] = rows;
    return for_each_slice(rows ? detail::all_gather(x, tp.sequence_dim(), tp) : x, tp);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const SliceGroup tp = held(context);
    const at::Tensor own = detail::tree_sum(gradients);
    return {context->saved_data["rows"].toBool()
                ? detail::tree_reduce_scatter(own, tp.sequence_dim(), tp)
                : detail::tree_all_reduce(own, tp),
            {},
            {}};
  }
};

struct Join : torch::autograd::Function<Join> {
  static at::Tensor forward(AutogradContext* context, at::TensorList parts, const SliceGroup& tp,
                            bool rows) {
    detail::hold(context, tp);
    context->saved_data["rows"] = rows;
    const at::Tensor own = detail::tree_sum(parts.vec());
    return rows ? detail::tree_reduce_scatter(own, tp.sequence_dim(), tp)
                : detail::tree_all_reduce(own, tp);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const SliceGroup tp = held(context);
    const at::Tensor dy = context->saved_data["rows"].toBool()
                              ? detail::all_gather(gradients[0], tp.sequence_dim(), tp)
                              : gradients[0];
    variable_list of_parts(static_cast<std::size_t>(tp.slices().size()), dy);
    of_parts.resize(of_parts.size() + 2);
    return of_parts;
  }
};

struct Scatter : torch::autograd::Function<Scatter> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const SliceGroup& tp,
                            std::int64_t dim) {
    detail::hold(context, tp);
    context->saved_data["dim"] = dim;
    return x.narrow(dim, tp.range(x.size(dim)).offset, tp.range(x.size(dim)).size);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {detail::all_gather(gradients[0], context->saved_data["dim"].toInt(), held(context)),
            {},
            {}};
  }
};

struct Gather : torch::autograd::Function<Gather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& part, const SliceGroup& tp,
                            std::int64_t dim) {
    const std::vector<at::Tensor> parts = detail::gather_parts(part, dim, tp);
    std::int64_t before = 0;
    for (int member = 0; member < tp.group().rank(); ++member)
      before += parts[static_cast<std::size_t>(member)].size(dim);
    context->saved_data["dim"] = dim;
    context->saved_data["before"] = before;
    context->saved_data["size"] = part.size(dim);
    return at::cat(parts, dim);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0].narrow(context->saved_data["dim"].toInt(),
                                context->saved_data["before"].toInt(),
                                context->saved_data["size"].toInt()),
            {},
            {}};
  }
};

void require_part_of_each_slice(const std::vector<at::Tensor>& parts, const SliceGroup& tp) {
  if (parts.size() == static_cast<std::size_t>(tp.slices().size())) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("{} parts are given for {} slices of this rank", parts.size(),
                                 tp.slices().size()),
               .where = "sluice/parts/tensor_parallel.h",
               .remedy = "give the results of this rank's slices, in their order"});
}

std::vector<at::Tensor> fan(const at::Tensor& x, const SliceGroup& tp, bool rows) {
  if (is_alone(tp)) return {x};
  const detail::WeightPlace place(x);
  if (rows) detail::dimension_of_rows(x, tp);
  return Fan::apply(x, tp, rows);
}

at::Tensor join(const std::vector<at::Tensor>& parts, const SliceGroup& tp, bool rows) {
  require_part_of_each_slice(parts, tp);
  if (is_alone(tp)) return parts.front();
  if (rows) detail::dimension_of_rows(parts.front(), tp);
  return Join::apply(at::TensorList(parts), tp, rows);
}

}  // namespace

std::vector<at::Tensor> copy_to(const at::Tensor& x, const SliceGroup& tp) {
  return fan(x, tp, /*rows=*/false);
}

std::vector<at::Tensor> gather_from_sequence(const at::Tensor& rows, const SliceGroup& tp) {
  return fan(rows, tp, /*rows=*/true);
}

at::Tensor reduce_from(const std::vector<at::Tensor>& parts, const SliceGroup& tp) {
  return join(parts, tp, /*rows=*/false);
}

at::Tensor reduce_scatter_to_sequence(const std::vector<at::Tensor>& parts, const SliceGroup& tp) {
  return join(parts, tp, /*rows=*/true);
}

at::Tensor scatter_to(const at::Tensor& x, const SliceGroup& tp, std::int64_t dim) {
  if (tp.degree() == 1) return x;
  return Scatter::apply(x, tp, detail::dimension_of(dim, x));
}

at::Tensor gather_from(const at::Tensor& part, const SliceGroup& tp, std::int64_t dim) {
  if (tp.degree() == 1) return part;
  return Gather::apply(part, tp, detail::dimension_of(dim, part));
}

std::vector<at::Tensor> own_slices(const at::Tensor& part, std::int64_t length,
                                   const SliceGroup& tp, std::int64_t dim) {
  const std::int64_t along = detail::dimension_of(dim, part);
  const IndexRange own = tp.range(length);
  if (part.size(along) != own.size) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted(
                     "the part has {} of {} along dimension {}, but this rank's slices have {}",
                     part.size(along), length, along, own.size),
                 .where = "sluice::own_slices",
                 .remedy = "give this rank's part, as a column-parallel layer without "
                           "gather_output returns it"});
  }
  if (tp.slices().size() == 1) return {part};
  return part.split_with_sizes(detail::slice_sizes(length, tp.slices()), along);
}

}  // namespace sluice
