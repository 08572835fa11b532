#include "parallel/divided_operators.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/format.h"
#include "layer/call_place.h"
#include "layer/split_backward.h"
#include "parallel/held_group.h"
#include "parallel/shared_weights.h"
#include "parallel/tree_exchange.h"
#include "plan/slices.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Computes x W^T, or x W if is_transposed, with x [.., in]. The graph saves the weight itself, so a
// contiguous copy of a slice's columns lives only during the product.
struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            bool is_transposed) {
    context->save_for_backward(
        {weight.requires_grad() ? x : at::Tensor(), x.requires_grad() ? weight : at::Tensor()});
    context->saved_data["sizes"] = x.sizes();
    context->saved_data["type_of_x"] = x.scalar_type();
    context->saved_data["type_of_weight"] = weight.scalar_type();
    context->saved_data["is_transposed"] = is_transposed;
    const at::Tensor w = weight.contiguous();
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = w.size(is_transposed ? 1 : 0);
    return at::mm(x.reshape({-1, x.size(-1)}), is_transposed ? w : w.t()).view(shape);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_one_derivative();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const bool is_transposed = context->saved_data["is_transposed"].toBool();
    const at::Tensor dy = gradients[0].reshape({-1, gradients[0].size(-1)});
    at::Tensor of_x, of_weight;
    if (context->needs_input_grad(0)) {
      const at::Tensor w = weight.contiguous().to(dy.scalar_type());
      of_x = at::mm(dy, is_transposed ? w.t() : w)
                 .view(context->saved_data["sizes"].toIntVector())
                 .to(context->saved_data["type_of_x"].toScalarType());
    }
    if (context->needs_input_grad(1)) {
      const at::Tensor rows = x.reshape({-1, x.size(-1)}).to(dy.scalar_type());
      of_weight = (is_transposed ? at::mm(rows.t(), dy) : at::mm(dy.t(), rows))
                      .to(context->saved_data["type_of_weight"].toScalarType());
    }
    return {of_x, of_weight, {}};
  }
};

struct Concatenated : torch::autograd::Function<Concatenated> {
  static at::Tensor forward(AutogradContext* context, at::TensorList parts, std::int64_t dim) {
    std::vector<std::int64_t> sizes;
    for (const at::Tensor& part : parts) sizes.push_back(part.size(dim));
    context->saved_data["sizes"] = sizes;
    context->saved_data["dim"] = dim;
    return at::cat(parts, dim);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_one_derivative();
    variable_list of_parts;
    for (const at::Tensor& part : gradients[0].split_with_sizes(
             context->saved_data["sizes"].toIntVector(), context->saved_data["dim"].toInt()))
      of_parts.push_back(part.clone());
    of_parts.emplace_back();
    return of_parts;
  }
};

void require_rows_of_table(const at::Tensor& ids, std::int64_t num_rows) {
  if (!ids.is_cpu() || ids.numel() == 0) return;
  const auto least = ids.min().item<std::int64_t>(), most = ids.max().item<std::int64_t>();
  if (least >= 0 && most < num_rows) return;
  throw Error(ErrorKind::kInput, {.what = formatted("id {} is not in the table, which has {} rows",
                                                    least < 0 ? least : most, num_rows),
                                  .where = "embedding",
                                  .remedy = "give ids from 0 to " + std::to_string(num_rows - 1)});
}

}  // namespace

std::vector<at::Tensor> enter(const at::Tensor& x, const SliceGroup& tp) {
  return tp.sequence_parallel() ? gather_from_sequence(x, tp) : copy_to(x, tp);
}

at::Tensor leave(const std::vector<at::Tensor>& parts, const SliceGroup& tp) {
  return tp.sequence_parallel() ? reduce_scatter_to_sequence(parts, tp) : reduce_from(parts, tp);
}

std::vector<at::Tensor> weight_slices(const at::Tensor& own, std::int64_t dim,
                                      const std::vector<std::int64_t>& sections,
                                      const SliceGroup& tp) {
  const auto num_slices = static_cast<std::size_t>(tp.slices().size());
  if (num_slices == 1) return {own};
  std::vector<std::int64_t> sizes;
  for (const std::int64_t section : sections)
    for (const std::int64_t size : slice_sizes(section, tp.slices())) sizes.push_back(size);
  std::vector<at::Tensor> pieces = own.split_with_sizes(sizes, dim), slices;
  if (sections.size() == 1) return pieces;
  for (std::size_t slice = 0; slice < num_slices; ++slice) {
    std::vector<at::Tensor> of_slice;
    for (std::size_t section = 0; section < sections.size(); ++section)
      of_slice.push_back(pieces[section * num_slices + slice]);
    slices.push_back(at::cat(of_slice, dim));
  }
  return slices;
}

std::vector<at::Tensor> products(const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& weights,
                                 const std::vector<at::Tensor>& biases) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(biases.empty() ? at::linear(inputs[i], weights[i])
                                   : at::linear(inputs[i], weights[i], biases[i]));
  }
  return parts;
}

std::vector<at::Tensor> products_with_fixed_layout(const std::vector<at::Tensor>& inputs,
                                                   const std::vector<at::Tensor>& weights,
                                                   bool is_transposed) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    declare_selective_backward(
        parts.emplace_back(Product::apply(inputs[i], weights[i], is_transposed)));
  return parts;
}

at::Tensor sum_of_products(const std::vector<at::Tensor>& inputs, const InputDivided& divided,
                           const at::Tensor& bias, const SliceGroup& tp) {
  const auto& [weight, dim, length] = divided;
  const WeightPlace place(weight);
  const std::vector<at::Tensor> weights = weight_slices(weight, dim, {length}, tp);
  const at::Tensor y =
      leave(products_with_fixed_layout(inputs, weights, /*is_transposed=*/dim == 0), tp);
  return bias.defined() ? add_shared(y, bias, tp) : y;
}

at::Tensor concatenated(const std::vector<at::Tensor>& parts, std::int64_t dim) {
  return parts.size() == 1 ? parts.front() : Concatenated::apply(at::TensorList(parts), dim);
}

at::Tensor side_by_side(const std::vector<at::Tensor>& parts,
                        const std::vector<std::int64_t>& sections, const SliceGroup& tp) {
  if (parts.size() == 1 || sections.size() == 1) return concatenated(parts, -1);
  std::vector<std::vector<at::Tensor>> of_sections(sections.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::int64_t> sizes;
    sizes.reserve(sections.size());
    for (const std::int64_t section : sections)
      sizes.push_back(slice_sizes(section, tp.slices())[i]);
    const std::vector<at::Tensor> pieces = parts[i].split_with_sizes(sizes, -1);
    for (std::size_t section = 0; section < sections.size(); ++section)
      of_sections[section].push_back(pieces[section]);
  }
  std::vector<at::Tensor> all;
  for (const auto& pieces : of_sections) all.insert(all.end(), pieces.begin(), pieces.end());
  return at::cat(all, -1);
}

at::Tensor divided_embedding(const at::Tensor& own, const at::Tensor& ids, std::int64_t num_rows,
                             std::int64_t padding_idx, const SliceGroup& tp) {
  require_rows_of_table(ids, num_rows);
  if (tp.slices().count == 1) return at::embedding(own, ids, padding_idx);
  const WeightPlace place(own);
  // One lookup serves all slices of this rank. At most one slice has an id, so summing slices only
  // adds zeros.
  const IndexRange here = tp.range(num_rows);
  const bool has_padding = padding_idx >= here.offset && padding_idx < here.offset + here.size;
  at::Tensor found;
  if (tp.degree() == 1) {
    found = at::embedding(own, ids, padding_idx) + 0.0;  // turns -0 into 0, as adding zeros would
  } else {
    const at::Tensor elsewhere = (ids < here.offset).logical_or_(ids >= here.offset + here.size);
    found = at::embedding(own, (ids - here.offset).masked_fill_(elsewhere, 0),
                          has_padding ? padding_idx - here.offset : -1)
                .masked_fill(elsewhere.unsqueeze(-1), 0.0);
  }
  const SliceGroup ranks(
      tp.group(),
      {.degree = tp.degree(), .slices = tp.degree(), .sequence = tp.sequence_parallel()},
      tp.sequence_dim());
  return leave({found}, ranks);
}

}  // namespace sluice::detail
