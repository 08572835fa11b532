#include "parallel/shared_weights.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <tuple>

#include "base/format.h"
#include "base/text.h"
#include "layer/call_place.h"
#include "layer/keyed_stream.h"
#include "parallel/held_group.h"
#include "parallel/tree_exchange.h"
#include "plan/slices.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_alone(const SliceGroup& tp) { return tp.slices().count == 1; }

SliceRange slices_of_rows(const SliceGroup& tp) {
  const int count = tp.slices().count;
  return tp.sequence_parallel() && tp.degree() > 1 ? tp.slices() : SliceRange{0, count, count};
}

std::vector<std::int64_t> sizes_of_rows(const at::Tensor& x, const SliceGroup& tp) {
  const std::int64_t rows = x.size(tp.sequence_dim());
  const SliceRange slices = slices_of_rows(tp);
  if (slices.size() == slices.count) return slice_sizes(rows, slices);
  return std::vector<std::int64_t>(static_cast<std::size_t>(slices.size()), rows / slices.size());
}

// Divides an activation along its rows into one block per tensor-parallel slice of this rank. The
// block sizes do not depend on the number of ranks, so sums over blocks have the same bits on any
// number.
class Blocks {
 public:
  Blocks(const at::Tensor& x, const SliceGroup& tp)
      : tp_(tp), dim_(tp.sequence_dim()), sizes_(sizes_of_rows(x, tp)) {}

  std::vector<at::Tensor> of(const at::Tensor& x) const {
    if (sizes_.size() == 1) return {x.contiguous()};
    std::vector<at::Tensor> blocks;
    for (const at::Tensor& block : x.split_with_sizes(sizes_, dim_))
      blocks.push_back(block.contiguous());
    return blocks;
  }
  at::Tensor sum(const std::vector<at::Tensor>& of_blocks) const {
    const at::Tensor own = tree_sum(of_blocks);
    return tp_.sequence_parallel() ? tree_all_reduce(own, tp_) : own;
  }

 private:
  const SliceGroup& tp_;
  std::int64_t dim_;
  std::vector<std::int64_t> sizes_;
};

at::Tensor sum_of_rows(const at::Tensor& x, std::int64_t width) {
  return x.reshape({-1, width}).sum(0);
}

struct AddBias : torch::autograd::Function<AddBias> {
  // columns: 0 for a bias that all rows share, otherwise the bias's columns on all ranks. `bias`
  // has this rank's columns, and so has x unless `gathered`.
  static at::Tensor forward(AutogradContext* context, at::Tensor x, const at::Tensor& bias,
                            const SliceGroup& tp, bool in_place, std::int64_t columns,
                            bool gathered) {
    hold(context, tp);
    context->saved_data["columns"] = columns;
    context->saved_data["type"] = bias.scalar_type();
    const at::Tensor added = gathered ? all_gather(bias, 0, tp) : bias;
    if (!in_place) return at::add(x, added);
    x.add_(added);
    context->mark_dirty({x});
    return x;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const SliceGroup tp = held(context);
    at::Tensor of_bias;
    if (context->needs_input_grad(1)) {
      const std::int64_t columns = context->saved_data["columns"].toInt();
      of_bias = (columns == 0 ? of_rows(gradients[0], tp) : of_columns(gradients[0], columns, tp))
                    .to(context->saved_data["type"].toScalarType());
    }
    return {gradients[0], of_bias, {}, {}, {}, {}};
  }

 private:
  static at::Tensor of_rows(const at::Tensor& dy, const SliceGroup& tp) {
    const Blocks blocks(dy, tp);
    std::vector<at::Tensor> sums;
    for (const at::Tensor& block : blocks.of(dy)) sums.push_back(sum_of_rows(block, dy.size(-1)));
    return blocks.sum(sums);
  }
  static at::Tensor of_columns(at::Tensor dy, std::int64_t columns, const SliceGroup& tp) {
    if (dy.size(-1) == columns) dy = part_of(dy, dy.dim() - 1, tp.range(columns));
    std::vector<at::Tensor> sums;
    for (const at::Tensor& slice : own_slices(dy, columns, tp))
      sums.push_back(sum_of_rows(slice.contiguous(), slice.size(-1)));
    return sums.size() == 1 ? sums.front() : at::cat(sums);
  }
};

struct MultiplyShared : torch::autograd::Function<MultiplyShared> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const SliceGroup& tp) {
    hold(context, tp);
    context->saved_data["type_of_x"] = x.scalar_type();
    context->saved_data["type_of_weight"] = weight.scalar_type();
    context->save_for_backward(
        {weight.requires_grad() ? x : at::Tensor(), x.requires_grad() ? weight : at::Tensor()});
    return at::mul(x, weight);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const SliceGroup tp = held(context);
    const variable_list saved = context->get_saved_variables();
    at::Tensor of_x, of_weight;
    if (context->needs_input_grad(0))
      of_x = at::mul(gradients[0], saved[1]).to(context->saved_data["type_of_x"].toScalarType());
    if (context->needs_input_grad(1)) {
      const at::Tensor products = at::mul(gradients[0], saved[0]);
      const Blocks blocks(products, tp);
      std::vector<at::Tensor> sums;
      for (const at::Tensor& block : blocks.of(products))
        sums.push_back(sum_of_rows(block, block.size(-1)));
      of_weight = blocks.sum(sums).to(context->saved_data["type_of_weight"].toScalarType());
    }
    return {of_x, of_weight, {}};
  }
};

struct EmbeddingShared : torch::autograd::Function<EmbeddingShared> {
  // num_read: all ids on all ranks are below this.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table,
                            const at::Tensor& ids, std::int64_t num_read, const SliceGroup& tp) {
    hold(context, tp);
    context->save_for_backward({ids});
    context->saved_data["rows"] = table.size(0);
    context->saved_data["num_read"] = num_read;
    context->saved_data["type"] = table.scalar_type();
    return at::embedding(table, ids);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const SliceGroup tp = held(context);
    const at::Tensor ids = context->get_saved_variables()[0];
    const Blocks blocks(ids, tp);
    const auto of_ids = blocks.of(ids), dy = blocks.of(gradients[0]);
    std::vector<at::Tensor> sums;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      sums.push_back(at::embedding_dense_backward(dy[i], of_ids[i],
                                                  context->saved_data["num_read"].toInt(),
                                                  /*padding_idx=*/-1, /*scale=*/false));
    }
    const at::Tensor sum = blocks.sum(sums).to(context->saved_data["type"].toScalarType());
    const std::int64_t unread = context->saved_data["rows"].toInt() - sum.size(0);
    return {unread == 0 ? sum : at::constant_pad_nd(sum, {0, 0, 0, unread}), {}, {}, {}};
  }
};

struct LayerNormShared : torch::autograd::Function<LayerNormShared> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, std::int64_t num_dims,
                            const at::Tensor& weight, const at::Tensor& bias, double eps,
                            const SliceGroup& tp) {
    hold(context, tp);
    const at::IntArrayRef shape = x.sizes().slice(static_cast<std::size_t>(x.dim() - num_dims));
    auto [y, mean, inverse] = at::native_layer_norm(x, shape, weight, bias, eps);
    context->save_for_backward({x, weight, bias, mean, inverse});
    context->saved_data["num_dims"] = num_dims;
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const SliceGroup tp = held(context);
    const variable_list saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &bias = saved[2];
    const at::IntArrayRef shape = x.sizes().slice(
        static_cast<std::size_t>(x.dim() - context->saved_data["num_dims"].toInt()));
    const auto gradient = [&](const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& mean,
                              const at::Tensor& inverse, std::array<bool, 3> wanted) {
      return at::native_layer_norm_backward(dy, rows, shape, mean, inverse, weight, bias, wanted);
    };
    at::Tensor of_x, of_weight, of_bias;
    if (context->needs_input_grad(0)) {
      of_x = std::get<0>(
          gradient(gradients[0].contiguous(), x, saved[3], saved[4], {true, false, false}));
    }
    const bool wants_weight = weight.defined() && context->needs_input_grad(1);
    const bool wants_bias = bias.defined() && context->needs_input_grad(2);
    if (wants_weight || wants_bias) {
      const Blocks blocks(x, tp);
      const auto dy = blocks.of(gradients[0]), rows = blocks.of(x), mean = blocks.of(saved[3]),
                 inverse = blocks.of(saved[4]);
      std::vector<at::Tensor> of_weights, of_biases;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        auto [none, w, b] =
            gradient(dy[i], rows[i], mean[i], inverse[i], {false, wants_weight, wants_bias});
        of_weights.push_back(w);
        of_biases.push_back(b);
      }
      if (wants_weight) of_weight = blocks.sum(of_weights);
      if (wants_bias) of_bias = blocks.sum(of_biases);
    }
    return {of_x, {}, of_weight, of_bias, {}, {}};
  }
};

void require_rows(const at::Tensor& x, const SliceGroup& tp) {
  const std::int64_t dim = dimension_of_rows(x, tp);
  if (!tp.sequence_parallel() || tp.degree() == 1 || x.size(dim) % tp.slices().size() == 0) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("{} rows of this rank cannot be divided into {} slices",
                                 x.size(dim), tp.slices().size()),
               .where = "sequence parallelism",
               .remedy = "give a length that the slices divide, or turn sequence parallelism off"});
}

void require_width(const at::Tensor& x, const at::Tensor& weight) {
  if (weight.dim() == 1 && x.dim() > 0 && weight.size(0) == x.size(-1)) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("a weight {} does not fit rows {}",
                                 shape_text(weight.sizes().vec()), shape_text(x.sizes().vec())),
               .where = "ParallelStyle::kSequence",
               .remedy = "give a weight of the last dimension"});
}

}  // namespace

at::Tensor add_shared(const at::Tensor& x, const at::Tensor& bias, const SliceGroup& tp,
                      bool in_place) {
  if (is_alone(tp)) return in_place ? x.add_(bias) : at::add(x, bias);
  require_rows(x, tp);
  require_width(x, bias);
  const WeightPlace place(bias);
  return AddBias::apply(x, bias, tp, in_place, /*columns=*/0, /*gathered=*/false);
}

at::Tensor add_columns_(const at::Tensor& x, const at::Tensor& bias, std::int64_t length,
                        bool gathered, const SliceGroup& tp) {
  if (is_alone(tp)) return x.add_(bias);
  const WeightPlace place(bias);
  return AddBias::apply(x, bias, tp, /*in_place=*/true, length, gathered);
}

at::Tensor multiply_shared(const at::Tensor& x, const at::Tensor& weight, const SliceGroup& tp) {
  if (is_alone(tp)) return at::mul(x, weight);
  require_rows(x, tp);
  require_width(x, weight);
  const WeightPlace place(weight);
  return MultiplyShared::apply(x, weight, tp);
}

at::Tensor embedding_shared(const at::Tensor& table, const at::Tensor& ids, const SliceGroup& tp) {
  if (is_alone(tp)) return at::embedding(table, ids);
  const WeightPlace place(table);
  const at::Tensor own = tp.sequence_parallel() ? part_of(ids, tp.sequence_dim(),
                                                          tp.range(ids.size(tp.sequence_dim())))
                                                : ids;
  const bool knows_ids = ids.is_cpu() && ids.numel() > 0;  // on a device, reading ids would block
  const std::int64_t num_read = knows_ids ? ids.max().item<std::int64_t>() + 1 : table.size(0);
  at::Tensor found = EmbeddingShared::apply(table, own, num_read, tp);
  require_rows(found, tp);
  return found;
}

at::Tensor dropout_mask(const at::Tensor& x, double probability, std::int64_t dim,
                        const std::vector<std::int64_t>& sizes, std::int64_t first_slice) {
  const DividedDraw draw;
  at::Tensor mask = at::empty(x.sizes(), x.options());
  std::int64_t slice = first_slice, before = 0;
  for (const std::int64_t size : sizes) {
    at::Tensor of_slice = mask.narrow(dim, before, size);
    draw.of_slice(slice, [&] {
      return of_slice.copy_(at::empty(of_slice.sizes(), x.options())
                                .bernoulli_(1 - probability)
                                .div_(1 - probability));
    });
    before += size;
    ++slice;
  }
  return mask;
}

at::Tensor dropout_mask_of_rows(const at::Tensor& x, double probability, const SliceGroup& tp) {
  require_rows(x, tp);
  return dropout_mask(x, probability, dimension_of_rows(x, tp), sizes_of_rows(x, tp),
                      slices_of_rows(tp).begin);
}

at::Tensor dropout_rows(const at::Tensor& x, double probability, const SliceGroup& tp) {
  if (is_alone(tp) || probability == 0 || probability == 1)
    return at::dropout(x, probability, /*train=*/true);
  return x * dropout_mask_of_rows(x, probability, tp);
}

at::Tensor layer_norm_shared(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& weight,
                             const at::Tensor& bias, double eps, const SliceGroup& tp) {
  if (is_alone(tp)) return at::layer_norm(x, shape, weight, bias, eps);
  require_rows(x, tp);
  const WeightPlace place(weight);
  return LayerNormShared::apply(x.contiguous(), static_cast<std::int64_t>(shape.size()), weight,
                                bias, eps, tp);
}

at::Tensor rms_norm_shared(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& weight,
                           std::optional<double> eps, const SliceGroup& tp) {
  if (is_alone(tp) || !weight.defined()) return at::rms_norm(x, shape, weight, eps);
  return multiply_shared(at::rms_norm(x, shape, {}, eps), weight, tp);
}

}  // namespace sluice::detail
