#include "ops/slices.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "ops/parallel_rows.h"
#include "parallel/tree_exchange.h"
#include "sluice/error.h"

namespace sluice::ops {
namespace {

constexpr std::int64_t kAlignedFloats = 16;

bool is_aligned(const float* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (kAlignedFloats * sizeof(float)) == 0;
}

int dimension_of(const LinearWeights& weights, const LinearPart& part) {
  return part.of_inputs == weights.is_transposed ? 0 : 1;
}

void write(const float* gradient, std::int64_t rows, std::int64_t width, Rows target, bool adds) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* to = target.data + row * target.stride;
    if (adds) {
      kernels().add_scaled(width, 1, gradient + row * width, to);
    } else {
      std::memcpy(to, gradient + row * width, static_cast<std::size_t>(width) * sizeof(float));
    }
  }
}

void sum_rows(std::int64_t rows, std::int64_t width, ConstRows x, float* sums) {
  for_rows_with_sums(rows, width, sums, [&](std::int64_t begin, std::int64_t end, float* of_block) {
    kernels().add_rows(end - begin, width, x.data + begin * x.stride, x.stride, of_block);
  });
}

// run(block, to) writes the sums of a block of rows to `to`. Adds the blocks of a slice in order,
// then the slices as a tree.
template <typename Run>
void sum_blocks(const std::vector<RowBlock>& blocks, std::int64_t width, float* sums,
                const Run& run) {
  const std::int64_t slices = blocks.back().slice + 1,
                     each = static_cast<std::int64_t>(blocks.size()) / slices;
  sum_slices(0, slices, width, sums, [&](std::int64_t slice, float* to) {
    for (std::int64_t i = 0; i < each; ++i) {
      const RowBlock& block = blocks[static_cast<std::size_t>(slice * each + i)];
      if (i == 0) {
        run(block, to);
        continue;
      }
      const KeptBlock more = take_memory(width);
      run(block, more.data());
      kernels().add_scaled(width, 1, more.data(), to);
    }
  });
}

}  // namespace

std::vector<RowBlock> row_blocks(const at::Tensor& x, const SliceGroup& tp, bool is_whole) {
  const std::int64_t hidden = x.size(-1);
  if (!is_sliced(tp)) return {{.rows = x.numel() / hidden}};
  const std::int64_t batch = x.size(0), length = x.size(1);
  const bool is_part = !is_whole && divides_rows(tp);
  const int count = tp.slices().count;
  const std::vector<std::int64_t> sizes =
      is_part ? std::vector<std::int64_t>(static_cast<std::size_t>(tp.slices().size()),
                                          length / tp.slices().size())
              : detail::slice_sizes(length, {0, count, count});
  std::vector<RowBlock> blocks;
  std::int64_t slice = 0, before = 0;
  for (const std::int64_t size : sizes) {
    for (std::int64_t sequence = 0; sequence < batch; ++sequence)
      blocks.push_back({.slice = slice, .first = sequence * length + before, .rows = size});
    before += size;
    ++slice;
  }
  return blocks;
}

LinearWeights weights_of(const LinearWeights& own, const LinearPart& part) {
  const std::int64_t all = part.of_inputs ? own.in() : own.out();
  const at::Tensor bias = part.of_inputs ? at::Tensor() : own.bias;
  if (part.size == all) return {own.weight, bias, own.is_transposed};
  const at::Tensor weight = own.weight.narrow(dimension_of(own, part), part.first, part.size);
  const bool lies_alike = weight.is_contiguous() && is_aligned(weight.const_data_ptr<float>());
  return {lies_alike ? weight : weight.clone(at::MemoryFormat::Contiguous),
          bias.defined() ? bias.narrow(0, part.first, part.size) : bias, own.is_transposed};
}

LinearWeights weights_of(const LinearWeights& own, const std::vector<LinearPart>& parts) {
  std::vector<at::Tensor> weights, biases;
  std::int64_t size = 0;
  for (const LinearPart& part : parts) {
    weights.push_back(own.weight.narrow(dimension_of(own, part), part.first, part.size));
    if (own.bias.defined()) biases.push_back(own.bias.narrow(0, part.first, part.size));
    size += part.size;
  }
  if (size == own.out()) return own;
  return {at::cat(weights, dimension_of(own, parts.front())),
          biases.empty() ? at::Tensor() : at::cat(biases), own.is_transposed};
}

void add_weight_gradient(std::int64_t rows, const LinearWeights& own, const LinearPart& part,
                         const SliceGroup& tp, ConstRows dy, ConstRows x, float scale,
                         const WeightGradients::Target& target) {
  const int dim = dimension_of(own, part);
  const std::int64_t width = own.weight.size(1);
  const at::Tensor weight = own.weight.narrow(dim, part.first, part.size);
  const LinearWeights shape{weight, {}, own.is_transposed};
  const Rows to{target.data + part.first * (dim == 0 ? width : 1), width};
  const bool lies_alike =
      (dim == 0 ? width : part.length) % (kAlignedFloats * (dim == 0 ? 1 : tp.slices().count)) == 0;
  if (!is_sliced(tp) || lies_alike)
    return linear_weight_gradient(rows, shape, dy, x, to, scale, target.adds);
  const std::int64_t columns = weight.size(1);
  const KeptBlock gradient = take_memory(weight.numel());
  linear_weight_gradient(rows, shape, dy, x, {gradient.data(), columns}, scale, /*adds=*/false);
  write(gradient.data(), weight.size(0), columns, to, target.adds);
}

void add_bias_gradient(std::int64_t rows, const LinearPart& part, ConstRows dy,
                       const WeightGradients::Target& target) {
  std::vector<float> sums(static_cast<std::size_t>(part.size));
  sum_rows(rows, part.size, dy, sums.data());
  write(sums.data(), 1, part.size, {target.data + part.first, part.size}, target.adds);
}

void give_shared_bias(const std::vector<RowBlock>& blocks, std::int64_t width, const float* dy,
                      std::size_t index, WeightGradients& gradients) {
  if (!gradients.wants(index)) return;
  std::vector<float> sums(static_cast<std::size_t>(width));
  sum_blocks(blocks, width, sums.data(), [&](const RowBlock& block, float* to) {
    sum_rows(block.rows, width, {dy + block.first * width, width}, to);
  });
  gradients.give(index, sums.data());
}

void norm_blocks(const NormWeights& weights, const std::vector<RowBlock>& blocks, const float* x,
                 float* y, float* statistics) {
  const std::int64_t width = weights.width();
  for (const RowBlock& block : blocks) {
    norm(weights, block.rows, {x + block.first * width, width}, {y + block.first * width, width},
         statistics + kNormFloats * block.first);
  }
}

void norm_gradient_blocks(const NormWeights& weights, const std::vector<RowBlock>& blocks,
                          const float* dy, const float* x, const float* statistics,
                          const float* residual, float* dx, float* weight_gradients) {
  const std::int64_t width = weights.width();
  sum_blocks(blocks, weights.weight_floats(), weight_gradients,
             [&](const RowBlock& block, float* to) {
               const std::int64_t at = block.first * width;
               norm_gradient(weights, block.rows, {dy + at, width}, {x + at, width},
                             statistics + kNormFloats * block.first,
                             residual ? residual + at : nullptr, {dx + at, width}, to);
             });
}

at::Tensor gathered_rows(const at::Tensor& x, const SliceGroup& tp) {
  return divides_rows(tp) ? detail::all_gather(x, tp.sequence_dim(), tp).contiguous() : x;
}

at::Tensor summed_rows(const at::Tensor& own, const SliceGroup& tp) {
  return start_summed_rows(own, tp).wait();
}

Work<at::Tensor> start_summed_rows(const at::Tensor& own, const SliceGroup& tp) {
  Work<at::Tensor> sum = divides_rows(tp)
                             ? detail::start_tree_reduce_scatter(own, tp.sequence_dim(), tp)
                             : detail::start_tree_all_reduce(own, tp);
  return std::move(sum).then([](const at::Tensor& rows) { return rows.contiguous(); });
}

void require_even_rows(const at::Tensor& x, std::int64_t length) {
  if (x.size(1) == length) return;
  throw Error(
      ErrorKind::kUsage,
      {.what = formatted("ranks have different numbers of the {} rows of a sequence", x.size(1)),
       .where = "sequence parallelism",
       .remedy = "give a length that the slices divide, or turn sequence parallelism off"});
}

void sum_over_ranks(float* values, std::int64_t size, const SliceGroup& tp) {
  if (tp.degree() == 1 || size == 0) return;
  const auto bytes = static_cast<std::size_t>(size) * sizeof(float);
  at::Tensor own = at::empty({size}, at::kFloat);
  std::memcpy(own.mutable_data_ptr<float>(), values, bytes);
  const at::Tensor sum = detail::tree_all_reduce(own, tp);
  std::memcpy(values, sum.const_data_ptr<float>(), bytes);
}

}  // namespace sluice::ops
