// Cross-entropy -log softmax(logits)[label] with columns (classes) divided among ranks. First takes
// the maximum over all columns, exact in any order. Then each slice of columns sums exponentials,
// and one slice reads the label's logit. Both are summed over slices as a tree. After Megatron's
// vocab_parallel_cross_entropy.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "parallel/held_group.h"
#include "parallel/tree_exchange.h"
#include "plan/slices.h"
#include "sluice/error.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void require_classes(const at::Tensor& labels, std::int64_t num_classes, std::int64_t ignored) {
  if (!labels.is_cpu() || labels.numel() == 0) return;
  const at::Tensor wrong =
      (labels != ignored).logical_and_((labels < 0).logical_or_(labels >= num_classes));
  if (!wrong.any().item<bool>()) return;
  throw Error(ErrorKind::kInput,
              {.what = formatted("label {} is not one of {} classes",
                                 labels.masked_select(wrong)[0].item<std::int64_t>(), num_classes),
               .where = "parallel_cross_entropy",
               .remedy = "give labels of the classes, or ignore_index"});
}

// Returns, per label [N], its column in the slice (0 if in another slice) and whether the slice has
// it.
std::pair<at::Tensor, at::Tensor> columns_of(const at::Tensor& labels, std::int64_t begin,
                                             std::int64_t size) {
  const at::Tensor own = (labels >= begin).logical_and_(labels < begin + size);
  return {(labels - begin).masked_fill_(own.logical_not(), 0), own};
}

// logits: [N, V_s] for each slice of this rank. labels and losses: [N].
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(AutogradContext* context, at::TensorList logits,
                            const at::Tensor& labels, const std::int64_t num_classes,
                            const SliceGroup& tp, std::int64_t ignored) {
    detail::hold(context, tp);
    const auto type = logits[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    std::vector<at::Tensor> largest;
    for (const at::Tensor& of_slice : logits)
      if (of_slice.size(1) > 0) largest.push_back(of_slice.amax(1));
    at::Tensor most = largest.empty()
                          ? at::full_like(labels, -std::numeric_limits<double>::infinity(), type)
                          : largest.front();
    for (std::size_t i = 1; i < largest.size(); ++i) most = at::maximum(most, largest[i]);
    most = detail::all_reduce_max(most.to(type), tp).unsqueeze(1);

    std::vector<at::Tensor> totals, chosen;
    variable_list saved = {labels};
    std::int64_t begin = tp.range(num_classes).offset;
    for (const at::Tensor& of_slice : logits) {
      at::Tensor z = of_slice.to(type) - most;
      if (z.size(1) == 0) {
        chosen.push_back(at::zeros_like(labels, z.options()));
      } else {
        const auto [column, own] = columns_of(labels, begin, z.size(1));
        chosen.push_back(
            z.gather(1, column.unsqueeze(1)).squeeze(1).masked_fill_(own.logical_not(), 0.0));
      }
      begin += z.size(1);
      z.exp_();
      totals.push_back(z.sum(1));
      saved.push_back(std::move(z));
    }
    const at::Tensor both = detail::tree_all_reduce(
        at::stack({detail::tree_sum(totals), detail::tree_sum(chosen)}), tp);
    const at::Tensor total = both[0];
    for (std::size_t i = 1; i < saved.size(); ++i) saved[i].div_(total.unsqueeze(1));
    context->save_for_backward(saved);
    context->saved_data["begin"] = tp.range(num_classes).offset;
    context->saved_data["ignored"] = ignored;
    context->saved_data["type"] = logits[0].scalar_type();
    return total.log().sub_(both[1]).masked_fill_(labels == ignored, 0.0);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const SliceGroup tp = detail::held(context);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& labels = saved[0];
    const at::Tensor dy =
        gradients[0].masked_fill(labels == context->saved_data["ignored"].toInt(), 0.0);
    std::int64_t begin = context->saved_data["begin"].toInt();
    variable_list of_logits;
    for (std::size_t i = 1; i < saved.size(); ++i) {
      const std::int64_t size = saved[i].size(1);
      at::Tensor gradient = saved[i] * dy.unsqueeze(1);
      if (size > 0) {
        const auto [column, own] = columns_of(labels, begin, size);
        gradient.scatter_add_(1, column.unsqueeze(1),
                              dy.neg().masked_fill_(own.logical_not(), 0.0).unsqueeze(1));
      }
      begin += size;
      of_logits.push_back(gradient.to(context->saved_data["type"].toScalarType()));
    }
    of_logits.resize(of_logits.size() + 4);
    return of_logits;
  }
};

void require_fit(const at::Tensor& logits, const at::Tensor& labels, std::int64_t size) {
  const auto rows = logits.sizes().slice(
      0, static_cast<std::size_t>(std::max<std::int64_t>(0, logits.dim() - 1)));
  if (logits.dim() > 0 && logits.size(-1) == size && rows == labels.sizes()) return;
  throw Error(
      ErrorKind::kUsage,
      {.what = formatted("logits {} of {} classes on this rank do not fit labels {}",
                         shape_text(logits.sizes().vec()), size, shape_text(labels.sizes().vec())),
       .where = "parallel_cross_entropy",
       .remedy = "give this rank's columns of every row, and the labels of all rows"});
}

}  // namespace

at::Tensor parallel_cross_entropy(const std::vector<at::Tensor>& logits, const at::Tensor& labels,
                                  std::int64_t num_classes, const SliceGroup& tp,
                                  std::int64_t ignore_index) {
  const std::vector<std::int64_t> sizes = detail::slice_sizes(num_classes, tp.slices());
  if (logits.size() != sizes.size()) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("logits of {} slices are given, but this rank has {}",
                                   logits.size(), sizes.size()),
                 .where = "parallel_cross_entropy",
                 .remedy = "give the logits of each slice of this rank"});
  }
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    require_fit(logits[i], labels, sizes[i]);
    rows.push_back(logits[i].reshape({labels.numel(), sizes[i]}));
  }
  require_classes(labels, num_classes, ignore_index);
  return CrossEntropy::apply(at::TensorList(rows), labels.reshape({-1}), num_classes, tp,
                             ignore_index)
      .view(labels.sizes());
}

at::Tensor parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                  std::int64_t num_classes, const SliceGroup& tp,
                                  std::int64_t ignore_index) {
  return parallel_cross_entropy(own_slices(logits, num_classes, tp), labels, num_classes, tp,
                                ignore_index);
}

}  // namespace sluice
