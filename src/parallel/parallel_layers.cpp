#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <cmath>
#include <utility>

#include "base/format.h"
#include "layer/call_place.h"
#include "parallel/divided_operators.h"
#include "parallel/tree_exchange.h"
#include "plan/slices.h"
#include "sluice/error.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice {
namespace {

using Sections = std::vector<std::int64_t>;

void require_sizes(std::int64_t in, std::int64_t out, const char* layer) {
  if (in > 0 && out > 0) return;
  throw Error(ErrorKind::kUsage, {.what = formatted("{} has the sizes {} and {}", layer, in, out),
                                  .where = "sluice/parts/tensor_parallel.h",
                                  .remedy = "give sizes above 0"});
}

ParameterSlices slices_of(const Sections& shape, int dim, const Sections& sections,
                          const SliceGroup& tp) {
  ParameterSlices slices;
  slices.global_shape = shape;
  slices.split =
      ParameterSplit{.dim = dim, .sections = sections.size() > 1 ? sections : Sections()};
  slices.slices = tp.slices();
  return slices;
}

// Returns this rank's slices of a tensor drawn whole, so that values equal those of LibTorch's
// module for any degree.
at::Tensor own_part(const at::Tensor& whole, std::int64_t dim, const Sections& sections,
                    const SliceGroup& tp) {
  if (tp.degree() == 1) return whole;
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t section : sections) {
    const IndexRange range = tp.range(section);
    parts.push_back(whole.narrow(dim, begin + range.offset, range.size));
    begin += section;
  }
  return at::cat(parts, dim);
}

struct DrawnLinear {
  DrawnLinear(std::int64_t in, std::int64_t out, bool has_bias, const at::TensorOptions& tensors,
              const char* layer) {
    require_sizes(in, out, layer);
    const at::NoGradGuard no_grad;
    weight = at::empty({out, in}, tensors);
    torch::nn::init::kaiming_uniform_(weight, std::sqrt(5.0));
    const double bound = 1.0 / std::sqrt(static_cast<double>(in));
    if (has_bias) bias = at::empty({out}, tensors).uniform_(-bound, bound);
  }
  at::Tensor weight, bias;
};

SliceGroup of_layer(SliceGroup tp, const std::optional<bool>& sequence_parallel) {
  if (sequence_parallel) tp = tp.with_sequence(*sequence_parallel);
  return tp;
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(std::int64_t in, std::int64_t out, SliceGroup tp,
                                                   ColumnParallelOptions options)
    : in_(in),
      out_(out),
      tp_(of_layer(std::move(tp), options.sequence_parallel)),
      options_(std::move(options)) {
  const DrawnLinear whole(in, out, options_.bias, options_.tensors, "ColumnParallelLinear");
  Sections& sections = options_.sections;
  std::int64_t all = 0;
  for (const std::int64_t section : sections) all += section;
  if (sections.empty()) {
    sections = {out};
  } else if (all != out) {
    throw Error(
        ErrorKind::kUsage,
        {.what = formatted("the sections have {} columns together, but the layer has {}", all, out),
         .where = "ColumnParallelOptions::sections",
         .remedy = "give the widths of all projections in the weight"});
  }
  weight = register_parameter("weight", own_part(whole.weight, 0, sections, tp_));
  bias = register_parameter(
      "bias", options_.bias ? own_part(whole.bias, 0, sections, tp_) : whole.bias, options_.bias);
}

std::vector<at::Tensor> ColumnParallelLinearImpl::slices_of(const at::Tensor& x) {
  const bool adds = bias.defined() && !options_.skip_bias_add;
  const detail::WeightPlace place(weight);
  const auto weights = detail::weight_slices(weight, 0, options_.sections, tp_);
  const auto biases =
      adds ? detail::weight_slices(bias, 0, options_.sections, tp_) : std::vector<at::Tensor>();
  return detail::products(detail::enter(x, tp_), weights, biases);
}

at::Tensor ColumnParallelLinearImpl::forward(const at::Tensor& x) {
  const detail::WeightPlace place(weight);
  const std::vector<at::Tensor> parts = slices_of(x);
  if (!options_.gather_output) return detail::side_by_side(parts, options_.sections, tp_);
  if (options_.sections.size() == 1) return gather_from(detail::concatenated(parts, -1), tp_);
  std::vector<at::Tensor> gathered;
  std::int64_t before = 0;
  const at::Tensor own = detail::side_by_side(parts, options_.sections, tp_);
  for (const std::int64_t section : options_.sections) {
    const std::int64_t size = tp_.range(section).size;
    gathered.push_back(gather_from(own.narrow(-1, before, size), tp_));
    before += size;
  }
  return at::cat(gathered, -1);
}

std::vector<std::pair<std::string, ParameterSlices>> ColumnParallelLinearImpl::slices() const {
  std::vector<std::pair<std::string, ParameterSlices>> all = {
      {"weight", sluice::slices_of({out_, in_}, 0, options_.sections, tp_)}};
  if (bias.defined())
    all.emplace_back("bias", sluice::slices_of({out_}, 0, options_.sections, tp_));
  return all;
}

RowParallelLinearImpl::RowParallelLinearImpl(std::int64_t in, std::int64_t out, SliceGroup tp,
                                             RowParallelOptions options)
    : in_(in),
      out_(out),
      tp_(of_layer(std::move(tp), options.sequence_parallel)),
      options_(options) {
  const DrawnLinear whole(in, out, options_.bias, options_.tensors, "RowParallelLinear");
  if (tp_.sequence_parallel() && tp_.slices().count > 1 && !options_.input_is_parallel) {
    throw Error(ErrorKind::kUsage,
                {.what = "a RowParallelLinear with sequence parallelism has its input divided by "
                         "rows, not columns",
                 .where = "RowParallelOptions::input_is_parallel",
                 .remedy = "give it columns of a ColumnParallelLinear with gather_output = false, "
                           "and input_is_parallel = true"});
  }
  weight = register_parameter("weight", own_part(whole.weight, 1, {in}, tp_));
  bias = register_parameter("bias", whole.bias, options_.bias);
}

at::Tensor RowParallelLinearImpl::forward(const at::Tensor& x) {
  const detail::WeightPlace place(weight);
  const at::Tensor own = options_.input_is_parallel ? x : scatter_to(x, tp_);
  return forward_slices(own_slices(own, in_, tp_));
}

at::Tensor RowParallelLinearImpl::forward_slices(const std::vector<at::Tensor>& parts) {
  const bool adds = bias.defined() && !options_.skip_bias_add;
  if (tp_.slices().count == 1) return at::linear(parts.at(0), weight, adds ? bias : at::Tensor());
  return detail::sum_of_products(parts, {weight, 1, in_}, adds ? bias : at::Tensor(), tp_);
}

std::vector<std::pair<std::string, ParameterSlices>> RowParallelLinearImpl::slices() const {
  return {{"weight", sluice::slices_of({out_, in_}, 1, {in_}, tp_)}};
}

ParallelEmbeddingImpl::ParallelEmbeddingImpl(std::int64_t num_embeddings,
                                             std::int64_t embedding_dim, SliceGroup tp,
                                             ParallelEmbeddingOptions options)
    : num_embeddings_(num_embeddings),
      embedding_dim_(embedding_dim),
      tp_(of_layer(std::move(tp), options.sequence_parallel)),
      options_(options) {
  require_sizes(num_embeddings, embedding_dim, "ParallelEmbedding");
  const std::int64_t padding = options_.padding_idx.value_or(-1);
  if (padding < -1 || padding >= num_embeddings) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("row {} is not in a table of {}", padding, num_embeddings),
                 .where = "ParallelEmbeddingOptions::padding_idx",
                 .remedy = "give a row of the table"});
  }
  const at::NoGradGuard no_grad;
  const at::Tensor whole =
      at::empty({num_embeddings, embedding_dim}, options_.tensors).normal_(0, 1);
  if (padding >= 0) whole[padding].zero_();
  weight = register_parameter("weight", own_part(whole, 0, {num_embeddings}, tp_));
}

at::Tensor ParallelEmbeddingImpl::forward(const at::Tensor& ids) {
  return detail::divided_embedding(weight, ids, num_embeddings_, options_.padding_idx.value_or(-1),
                                   tp_);
}

std::vector<std::pair<std::string, ParameterSlices>> ParallelEmbeddingImpl::slices() const {
  return {
      {"weight", sluice::slices_of({num_embeddings_, embedding_dim_}, 0, {num_embeddings_}, tp_)}};
}

}  // namespace sluice
