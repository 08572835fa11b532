#include "ops/attention_block.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstring>
#include <utility>

#include "layer/call_place.h"
#include "ops/block_parts.h"
#include "ops/kept_memory.h"
#include "ops/kernels/kernels.h"
#include "ops/parallel_rows.h"
#include "ops/slices.h"

namespace sluice::ops {
namespace {

// Columns of queries, keys and values of a slice in the rows of one matrix.
struct Columns {
  std::int64_t width, queries, keys, values;
  std::int64_t of_next_head;  // from the queries of a key-value head to those of the next
  std::int64_t of_next_key;

  explicit Columns(const AttentionBlock& b) {
    const std::int64_t slices = b.slices.slices().count;
    const std::int64_t q = b.num_heads / slices * b.head_dim,
                       k = b.num_key_value_heads / slices * b.head_dim;
    width = q + 2 * k;
    queries = 0;
    keys = b.interleaved_heads ? b.head_dim : q;
    values = b.interleaved_heads ? 2 * b.head_dim : q + k;
    const std::int64_t group = b.num_heads / b.num_key_value_heads;
    of_next_head = b.interleaved_heads ? 3 * b.head_dim : group * b.head_dim;
    of_next_key = b.interleaved_heads ? 3 * b.head_dim : b.head_dim;
  }
};

// Sizes of a slice, and of all rows.
struct Sizes {
  std::int64_t batch, length, rows, hidden, heads, key_value_heads, head_dim, query_width,
      key_width;

  Sizes(const at::Tensor& x_BLD, const AttentionBlock& b)
      : batch(x_BLD.size(0)),
        length(x_BLD.size(1) * (divides_rows(b.slices) ? b.slices.degree() : 1)),
        rows(batch * length),
        hidden(x_BLD.size(2)),
        heads(b.num_heads / b.slices.slices().count),
        key_value_heads(b.num_key_value_heads / b.slices.slices().count),
        head_dim(b.head_dim),
        query_width(heads * b.head_dim),
        key_width(key_value_heads * b.head_dim) {}
};

// Head norms: `norm` of each group of its width in `columns` numbers of every row.
void head_norm(const NormWeights& norm, std::int64_t rows, std::int64_t columns, ConstRows x,
               Rows y, float* inverses) {
  const std::int64_t width = norm.width(), groups = columns / width;
  const auto* weight = norm.weight.const_data_ptr<float>();
  for_rows(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      kernels().rms_norm(groups, width, x.data + row * x.stride, width, weight, norm.offset,
                         static_cast<float>(norm.eps), y.data + row * y.stride, width,
                         inverses + row * groups);
    }
  });
}

// In place: d becomes the gradient of x.
void head_norm_gradient(const NormWeights& norm, std::int64_t rows, std::int64_t columns, Rows d,
                        ConstRows x, const float* inverses, float* weight_gradient) {
  const std::int64_t width = norm.width(), groups = columns / width;
  const auto* weight = norm.weight.const_data_ptr<float>();
  const auto run = [&](std::int64_t begin, std::int64_t end, float* sums) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* of_row = d.data + row * d.stride;
      kernels().rms_norm_gradient(groups, width, of_row, width, x.data + row * x.stride, width,
                                  inverses + row * groups, weight, norm.offset, nullptr, of_row,
                                  width, sums);
    }
  };
  for_rows_with_sums(rows, width, weight_gradient, run);
}

class AttentionNode final : public SplitNode {
 public:
  AttentionNode(const at::Tensor& x_BLD, AttentionBlock block, AttentionPositions positions)
      : x_(x_BLD),
        b_(std::move(block)),
        p_(std::move(positions)),
        s_(x_BLD, b_),
        c_(b_),
        own_(b_.slices.slices().size()),
        blocks_(row_blocks(x_BLD, b_.slices)),
        own_size_(x_BLD.numel()) {}

  std::string name() const override { return "AttentionBlock"; }

  // In the order of begin() below.
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> all{b_.before.weight,   b_.before.bias,   b_.query_norm.weight,
                                b_.key_norm.weight, b_.output.weight, b_.output.bias,
                                b_.behind.weight,   b_.behind.bias};
    for (const LinearWeights& projection : b_.projections) {
      all.push_back(projection.weight);
      all.push_back(projection.bias);
    }
    return all;
  }

  at::Tensor forward() {
    take_forward_memory();
    const float* x = x_.const_data_ptr<float>();
    enter(x);
    for (std::int64_t slice = 0; slice < own_; ++slice) {
      project(slice);
      turn(projected(slice), 1);
      attend(slice);
    }
    if (is_sliced(b_.slices)) return leave(x);
    at::Tensor y_BLD = at::empty_like(x_);
    auto* y = y_BLD.mutable_data_ptr<float>();
    if (b_.behind.is_there()) {
      linear(s_.rows, b_.output, {attended_, s_.query_width}, {result_, s_.hidden});
      add_normed_result(x, y);
    } else {
      add_result(s_.rows, b_.output, {attended_, s_.query_width}, b_.adds_input ? x : nullptr,
                 b_.residual_scale, y);
    }
    return y_BLD;
  }

 protected:
  at::Tensor input_half(const at::Tensor& gradient, bool wanted) override {
    const auto* dy = gradient.const_data_ptr<float>();
    take_backward_memory();
    const bool has_behind = b_.behind.is_there();
    const float* d_result = dy;
    if (is_sliced(b_.slices)) {
      const at::Tensor of_own_rows = has_behind ? at::empty_like(gradient) : gradient;
      if (has_behind) through_behind(dy, of_own_rows.mutable_data_ptr<float>());
      of_all_rows_ = gathered_rows(of_own_rows, in_backward_);
      d_result = of_all_rows_.const_data_ptr<float>();
    } else if (has_behind) {
      through_behind(dy, d_result_);
      d_result = d_result_;
    }
    const float scale = has_behind ? 1 : b_.residual_scale;
    for (std::int64_t slice = 0; slice < own_; ++slice) {
      const KeptBlock d_attended = take_memory(s_.rows * s_.query_width);
      linear_input_gradient(s_.rows, weights_of(b_.output, inputs(slice)), {d_result, s_.hidden},
                            {d_attended.data(), s_.query_width}, scale);
      attend_gradient(slice, d_attended.data());
      turn(d_projected(slice), -1);
    }
    if (b_.query_norm.is_there()) head_norm_gradients();
    const bool trains_before = is_weight(kBefore) || is_weight(kBefore + 1);
    at::Tensor dx;
    if (wanted || trains_before) dx = gradient_of_input(dy);
    sum_shared_weights(dx.defined());
    return dx;
  }

  void weight_half(const at::Tensor& gradient, WeightGradients& gradients) override {
    const bool has_behind = b_.behind.is_there();
    const float* d_result = of_all_rows_.defined() ? of_all_rows_.const_data_ptr<float>()
                            : has_behind           ? d_result_
                                                   : gradient.const_data_ptr<float>();
    if (gradients.wants(kOutput)) {
      const WeightGradients::Target target = gradients.begin(kOutput);
      for (std::int64_t slice = 0; slice < own_; ++slice) {
        add_weight_gradient(s_.rows, b_.output, inputs(slice), b_.slices, {d_result, s_.hidden},
                            {attended(slice), s_.query_width}, has_behind ? 1 : b_.residual_scale,
                            target);
      }
    }
    if (gradients.wants(kOutput + 1)) {
      const at::Tensor& all = of_all_rows_.defined() ? of_all_rows_ : gradient;
      give_shared_bias(row_blocks(all, b_.slices, /*is_whole=*/true), s_.hidden, d_result,
                       kOutput + 1, gradients);
    }
    for (std::size_t i = 0; i < b_.projections.size(); ++i) give_projection(i, gradients);
    give_norm(b_.before, kBefore, d_before_, gradients);
    give_norm(b_.behind, kBehind, d_behind_, gradients);
    if (gradients.wants(kQueryNorm)) gradients.give(kQueryNorm, d_query_norm_);
    if (gradients.wants(kKeyNorm)) gradients.give(kKeyNorm, d_key_norm_);
  }

  void free_input_half() override {
    only_input_.reset();
    summed_.reset();
    if (b_.before.is_there() || entered_.defined()) x_.reset();  // else the weights' half reads it
    p_ = {};
  }
  void free_all() override {
    for (KeptBlock* memory : {&kept_, &only_input_, &gradients_}) memory->reset();
    for (at::Tensor* tensor : {&x_, &entered_, &of_all_rows_, &summed_}) tensor->reset();
    p_ = {};
  }

 private:
  // Places in weights().
  static constexpr std::size_t kBefore = 0, kQueryNorm = 2, kKeyNorm = 3, kOutput = 4, kBehind = 6,
                               kProjections = 8;

  std::int64_t raw_width() const { return s_.query_width + s_.key_width; }
  // The rows of a slice.
  float* projected(std::int64_t slice) const { return projected_ + slice * s_.rows * c_.width; }
  float* d_projected(std::int64_t slice) const { return d_projected_ + slice * s_.rows * c_.width; }
  float* attended(std::int64_t slice) const { return attended_ + slice * s_.rows * s_.query_width; }
  float* raw(std::int64_t slice) const { return raw_ + slice * s_.rows * raw_width(); }
  float* inverses(std::int64_t slice, bool of_keys) const {
    const std::int64_t width = of_keys ? s_.key_width : s_.query_width;
    return (of_keys ? key_inverses_ : query_inverses_) +
           slice * s_.rows * (width / b_.query_norm.width());
  }
  // The projections' input, all rows.
  const float* input() const {
    if (entered_.defined()) return entered_.const_data_ptr<float>();
    return b_.before.is_there() ? normed_ : x_.const_data_ptr<float>();
  }

  LinearPart inputs(std::int64_t slice) const {
    return {.of_inputs = true,
            .first = slice * s_.query_width,
            .size = s_.query_width,
            .length = b_.num_heads * s_.head_dim};
  }

  // Outputs of a projection that a slice has, and their column in its rows.
  struct Outputs {
    LinearPart part;
    std::int64_t column = 0;
  };
  std::vector<Outputs> outputs(std::size_t projection, std::int64_t slice) const {
    const std::int64_t q = s_.query_width, k = s_.key_width, num = b_.slices.slices().count;
    const auto part = [&](std::int64_t before, std::int64_t width) {
      return LinearPart{
          .first = before * own_ + slice * width, .size = width, .length = width * num};
    };
    if (b_.projections.size() > 1) {
      if (projection == 0) return {{part(0, q), 0}};
      return {{part(0, k), projection == 1 ? q : q + k}};
    }
    // One product of all columns where no slice lies between them.
    if (b_.interleaved_heads || !is_sliced(b_.slices)) return {{part(0, c_.width), 0}};
    return {{part(0, q), 0}, {part(q, k), q}, {part(q + k, k), q + k}};
  }

  void take_forward_memory() {
    const std::int64_t rows = s_.rows, own_rows = own_size_ / s_.hidden;
    const bool has_before = b_.before.is_there(), has_behind = b_.behind.is_there(),
               has_head_norms = b_.query_norm.is_there();
    const bool keeps_normed = has_before && !is_sliced(b_.slices),
               keeps_result = has_behind && !is_sliced(b_.slices);
    kept_ = take_memory(rows * (own_ * s_.query_width + (keeps_normed ? s_.hidden : 0)));
    Floats kept(kept_.data());
    attended_ = kept.take(rows * own_ * s_.query_width);
    if (keeps_normed) normed_ = kept.take(rows * s_.hidden);
    const std::int64_t groups =
        has_head_norms ? s_.query_width / b_.query_norm.width() + s_.key_width / b_.key_norm.width()
                       : 0;
    only_input_ = take_memory(
        rows * own_ * (c_.width + s_.heads + (has_head_norms ? raw_width() + groups : 0)) +
        own_rows * ((has_before ? kNormFloats : 0) + (has_behind ? kNormFloats : 0) +
                    (keeps_result ? s_.hidden : 0)));
    Floats only(only_input_.data());
    projected_ = only.take(rows * own_ * c_.width);
    log_sums_ = only.take(rows * own_ * s_.heads);
    if (has_before) before_ = only.take(own_rows * kNormFloats);
    if (keeps_result) result_ = only.take(own_rows * s_.hidden);
    if (has_behind) behind_ = only.take(own_rows * kNormFloats);
    if (has_head_norms) {
      raw_ = only.take(rows * own_ * raw_width());
      query_inverses_ = only.take(rows * own_ * (s_.query_width / b_.query_norm.width()));
      key_inverses_ = only.take(rows * own_ * (s_.key_width / b_.key_norm.width()));
    }
  }

  void take_backward_memory() {
    const auto floats = [](const NormWeights& norm) {
      return norm.is_there() ? norm.weight_floats() : 0;
    };
    const std::int64_t of_result = b_.behind.is_there() && !is_sliced(b_.slices) ? own_size_ : 0;
    gradients_ = take_memory(s_.rows * own_ * c_.width + of_result + floats(b_.before) +
                             floats(b_.behind) + floats(b_.query_norm) + floats(b_.key_norm));
    Floats all(gradients_.data());
    d_projected_ = all.take(s_.rows * own_ * c_.width);
    d_result_ = all.take(of_result);
    d_before_ = all.take(floats(b_.before));
    d_behind_ = all.take(floats(b_.behind));
    d_query_norm_ = all.take(floats(b_.query_norm));
    d_key_norm_ = all.take(floats(b_.key_norm));
    d_end_ = all.take(0);
  }

  // The norm of the rows of this rank, and those of the others.
  void enter(const float* x) {
    const bool has_before = b_.before.is_there();
    if (!is_sliced(b_.slices)) {
      if (has_before) norm_blocks(b_.before, blocks_, x, normed_, before_);
      return;
    }
    at::Tensor own = has_before ? at::empty_like(x_) : x_;
    if (has_before) norm_blocks(b_.before, blocks_, x, own.mutable_data_ptr<float>(), before_);
    const detail::WeightPlace place(b_.projections.front().weight);
    entered_ = gathered_rows(own, b_.slices);
    if (divides_rows(b_.slices)) require_even_rows(entered_, s_.length);
  }

  // The gradient in front of the norm behind, and that of what it adds to.
  void through_behind(const float* dy, float* d_result) const {
    norm_gradient_blocks(b_.behind, blocks_, dy, result_, behind_, nullptr, d_result, d_behind_);
    scale_all(own_size_, b_.residual_scale, d_result);
    scale_all(b_.behind.weight_floats(), b_.residual_scale, d_behind_);
  }

  void add_normed_result(const float* x, float* y) {
    norm_blocks(b_.behind, blocks_, result_, y, behind_);
    if (b_.adds_input) kernels().sum_scaled(own_size_, x, b_.residual_scale, y, y);
  }

  // The sum over all slices, and what is done once behind it.
  at::Tensor leave(const float* x) {
    at::Tensor sum_BLD = at::empty({s_.batch, s_.length, s_.hidden}, x_.options());
    sum_slices(0, own_, s_.rows * s_.hidden, sum_BLD.mutable_data_ptr<float>(),
               [&](std::int64_t slice, float* to) {
                 linear(s_.rows, weights_of(b_.output, inputs(slice)),
                        {attended(slice), s_.query_width}, {to, s_.hidden});
               });
    const detail::WeightPlace place(b_.output.weight);
    at::Tensor y_BLD = summed_rows(std::exchange(sum_BLD, {}), b_.slices);
    in_backward_ = b_.slices.of_call(detail::numbered_place());
    auto* y = y_BLD.mutable_data_ptr<float>();
    if (b_.output.bias.defined()) {
      kernels().add_bias(own_size_ / s_.hidden, s_.hidden, b_.output.bias.const_data_ptr<float>(),
                         y, s_.hidden);
    }
    if (b_.behind.is_there()) {
      summed_ = std::exchange(y_BLD, at::empty_like(x_));
      result_ = y;
      add_normed_result(x, y_BLD.mutable_data_ptr<float>());
    } else {
      add_sum(own_size_, b_.adds_input ? x : nullptr, b_.residual_scale, y);
    }
    return y_BLD;
  }

  // The queries and keys of all rows, in place.
  void turn(float* projected, float direction) const {
    if (!p_.cosines.defined()) return;
    const std::int64_t half = p_.cosines.size(-1), length = s_.length;
    const bool of_rows = p_.cosines.dim() == 4;  // every sequence has its own
    const auto *cosines = p_.cosines.const_data_ptr<float>(),
               *sines = p_.sines.const_data_ptr<float>();
    at::parallel_for(0, s_.batch, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t sequence = begin; sequence < end; ++sequence) {
        const std::int64_t angle = of_rows ? sequence * length * half : 0;
        float* first = projected + sequence * length * c_.width;
        const auto rotate = [&](std::int64_t column, std::int64_t heads, std::int64_t apart) {
          kernels().rotate(length, heads, apart, half, first + column, c_.width, cosines + angle,
                           sines + angle, direction);
        };
        if (b_.interleaved_heads) {
          rotate(c_.queries, s_.heads, 3 * s_.head_dim);
          rotate(c_.keys, s_.heads, 3 * s_.head_dim);
        } else {  // keys follow the queries
          rotate(c_.queries, s_.heads + s_.key_value_heads, s_.head_dim);
        }
      }
    });
  }

  // Queries, keys and values of a slice.
  void project(std::int64_t slice) {
    float* first = projected(slice);
    for (std::size_t i = 0; i < b_.projections.size(); ++i) {
      for (const Outputs& one : outputs(i, slice)) {
        linear(s_.rows, weights_of(b_.projections[i], one.part), {input(), s_.hidden},
               {first + one.column, c_.width});
      }
    }
    if (!b_.query_norm.is_there()) return;
    for (std::int64_t row = 0; row < s_.rows; ++row) {
      std::memcpy(raw(slice) + row * raw_width(), first + row * c_.width,
                  static_cast<std::size_t>(raw_width()) * sizeof(float));
    }
    head_norm(b_.query_norm, s_.rows, s_.query_width, {raw(slice), raw_width()},
              {first + c_.queries, c_.width}, inverses(slice, /*of_keys=*/false));
    head_norm(b_.key_norm, s_.rows, s_.key_width, {raw(slice) + s_.query_width, raw_width()},
              {first + c_.keys, c_.width}, inverses(slice, /*of_keys=*/true));
  }

  // In place of those of the projected; those of the weights are sums over own slices.
  void head_norm_gradients() const {
    for (const bool of_keys : {false, true}) {
      const NormWeights& norm = of_keys ? b_.key_norm : b_.query_norm;
      const std::int64_t before = of_keys ? s_.query_width : 0;
      sum_slices(0, own_, norm.width(), of_keys ? d_key_norm_ : d_query_norm_,
                 [&](std::int64_t slice, float* to) {
                   head_norm_gradient(
                       norm, s_.rows, of_keys ? s_.key_width : s_.query_width,
                       {d_projected(slice) + (of_keys ? c_.keys : c_.queries), c_.width},
                       {raw(slice) + before, raw_width()}, inverses(slice, of_keys), to);
                 });
    }
  }

  // The call for the sequence and key-value head `index` of a slice.
  AttentionCall call(std::int64_t slice, std::int64_t index, float* scratch) const {
    const std::int64_t sequence = index / s_.key_value_heads, head = index % s_.key_value_heads,
                       group = s_.heads / s_.key_value_heads;
    const std::int64_t row = sequence * s_.length;
    const float* first = projected(slice) + row * c_.width;
    AttentionCall call;
    call.length = s_.length;
    call.group = group;
    call.head_dim = s_.head_dim;
    call.q = first + c_.queries + head * c_.of_next_head;
    call.k = first + c_.keys + head * c_.of_next_key;
    call.v = first + c_.values + head * c_.of_next_key;
    call.row_stride = c_.width;
    call.out = attended(slice) + row * s_.query_width + head * group * s_.head_dim;
    call.out_stride = s_.query_width;
    call.log_sums = log_sums_ + (slice * s_.rows + row) * s_.heads + head * group * s_.length;
    call.scale = b_.score_scale;
    call.cap = b_.score_cap;
    if (p_.first_keys.defined()) {
      call.first_key = p_.first_keys.const_data_ptr<std::int32_t>() +
                       (p_.first_keys.dim() == 2 ? sequence * s_.length : 0);
    }
    call.scratch = scratch;
    return call;
  }

  template <typename Run>
  void for_each_head(std::int64_t slice, const Run& run) const {
    at::parallel_for(0, s_.batch * s_.key_value_heads, 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       const KeptBlock scratch =
                           take_memory(kernels().attention_scratch(s_.length, s_.head_dim));
                       for (std::int64_t index = begin; index < end; ++index)
                         run(index, call(slice, index, scratch.data()));
                     });
  }

  void attend(std::int64_t slice) const {
    for_each_head(slice,
                  [](std::int64_t, const AttentionCall& call) { kernels().attention(call); });
  }

  void attend_gradient(std::int64_t slice, const float* d_attended) const {
    for_each_head(slice, [&](std::int64_t index, const AttentionCall& forward) {
      const std::int64_t row = index / s_.key_value_heads * s_.length,
                         head = index % s_.key_value_heads;
      float* first = d_projected(slice) + row * c_.width;
      kernels().attention_gradient({.forward = forward,
                                    .d_out = d_attended + (forward.out - attended(slice)),
                                    .dq = first + c_.queries + head * c_.of_next_head,
                                    .dk = first + c_.keys + head * c_.of_next_key,
                                    .dv = first + c_.values + head * c_.of_next_key});
    });
  }

  at::Tensor gradient_of_input(const float* dy) const {
    if (is_sliced(b_.slices)) return summed_gradient_of_input(dy);
    at::Tensor dx_BLD = at::empty_like(x_);
    auto* dx = dx_BLD.mutable_data_ptr<float>();
    if (b_.before.is_there()) {
      const KeptBlock d_normed = take_memory(own_size_);
      project_gradient(0, d_normed.data(), /*adds=*/false);
      norm_gradient_blocks(b_.before, blocks_, d_normed.data(), x_.const_data_ptr<float>(), before_,
                           b_.adds_input ? dy : nullptr, dx, d_before_);
    } else {
      if (b_.adds_input) std::memcpy(dx, dy, static_cast<std::size_t>(own_size_) * sizeof(float));
      project_gradient(0, dx, b_.adds_input);
    }
    return dx_BLD;
  }

  at::Tensor summed_gradient_of_input(const float* dy) const {
    at::Tensor sum_BLD = at::empty({s_.batch, s_.length, s_.hidden}, x_.options());
    sum_slices(0, own_, s_.rows * s_.hidden, sum_BLD.mutable_data_ptr<float>(),
               [&](std::int64_t slice, float* to) { project_gradient(slice, to, /*adds=*/false); });
    at::Tensor dx_BLD = summed_rows(std::exchange(sum_BLD, {}), in_backward_);
    auto* dx = dx_BLD.mutable_data_ptr<float>();
    if (b_.before.is_there()) {
      norm_gradient_blocks(b_.before, blocks_, dx, x_.const_data_ptr<float>(), before_,
                           b_.adds_input ? dy : nullptr, dx, d_before_);
    } else if (b_.adds_input) {
      kernels().add_scaled(own_size_, 1, dy, dx);
    }
    return dx_BLD;
  }

  void project_gradient(std::int64_t slice, float* d_input, bool adds) const {
    for (std::size_t i = 0; i < b_.projections.size(); ++i) {
      for (const Outputs& one : outputs(i, slice)) {
        linear_input_gradient(s_.rows, weights_of(b_.projections[i], one.part),
                              {d_projected(slice) + one.column, c_.width}, {d_input, s_.hidden}, 1,
                              adds);
        adds = true;
      }
    }
  }

  void give_projection(std::size_t i, WeightGradients& gradients) const {
    const std::size_t index = kProjections + 2 * i;
    for (const std::size_t weight : {index, index + 1}) {
      if (!gradients.wants(weight)) continue;
      const WeightGradients::Target target = gradients.begin(weight);
      for (std::int64_t slice = 0; slice < own_; ++slice) {
        for (const Outputs& one : outputs(i, slice)) {
          const ConstRows dy{d_projected(slice) + one.column, c_.width};
          if (weight == index) {
            add_weight_gradient(s_.rows, b_.projections[i], one.part, b_.slices, dy,
                                {input(), s_.hidden}, 1, target);
          } else {
            add_bias_gradient(s_.rows, one.part, dy, target);
          }
        }
      }
    }
  }

  // Gradients that are sums over heads, and those over rows where these are divided. has_before: of
  // the norm of x, too.
  void sum_shared_weights(bool has_before) const {
    float* first = divides_rows(b_.slices) ? (has_before ? d_before_ : d_behind_) : d_query_norm_;
    sum_over_ranks(first, d_end_ - first, in_backward_);
  }

  at::Tensor x_;
  const AttentionBlock b_;
  SliceGroup in_backward_;  // for the calls of the backward; of one slice without a place
  AttentionPositions p_;
  const Sizes s_;
  const Columns c_;
  const std::int64_t own_;              // slices
  const std::vector<RowBlock> blocks_;  // of x
  const std::int64_t own_size_;         // of x
  // Rows of all ranks: the input of the projections, the gradient behind their sum.
  at::Tensor entered_, of_all_rows_;
  at::Tensor summed_;  // in front of the norm behind
  KeptBlock kept_, only_input_, gradients_;
  float *attended_ = nullptr, *normed_ = nullptr;  // in kept_
  float *projected_ = nullptr, *log_sums_ = nullptr, *before_ = nullptr, *result_ = nullptr,
        *behind_ = nullptr, *raw_ = nullptr, *query_inverses_ = nullptr,
        *key_inverses_ = nullptr;  // in only_input_; result_ of slices in summed_
  float *d_projected_ = nullptr, *d_result_ = nullptr, *d_before_ = nullptr, *d_behind_ = nullptr,
        *d_query_norm_ = nullptr, *d_key_norm_ = nullptr, *d_end_ = nullptr;  // in gradients_
};

}  // namespace

at::Tensor attention_block(const at::Tensor& x_BLD, const AttentionBlock& block,
                           const AttentionPositions& positions) {
  return run_node<AttentionNode>(x_BLD, block, positions);
}

}  // namespace sluice::ops
