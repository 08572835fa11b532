#include "ops/attention_block.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include <cstring>
#include <utility>

#include "ops/block_parts.h"
#include "ops/kept_memory.h"
#include "ops/kernels/kernels.h"
#include "ops/parallel_rows.h"

namespace sluice::ops {
namespace {

// Columns of queries, keys and values in the rows of one matrix.
struct Columns {
  std::int64_t width, queries, keys, values;
  std::int64_t of_next_head;  // from the queries of a key-value head to those of the next
  std::int64_t of_next_key;

  explicit Columns(const AttentionBlock& b) {
    const std::int64_t q = b.num_heads * b.head_dim, k = b.num_key_value_heads * b.head_dim;
    width = q + 2 * k;
    queries = 0;
    keys = b.interleaved_heads ? b.head_dim : q;
    values = b.interleaved_heads ? 2 * b.head_dim : q + k;
    const std::int64_t group = b.num_heads / b.num_key_value_heads;
    of_next_head = b.interleaved_heads ? 3 * b.head_dim : group * b.head_dim;
    of_next_key = b.interleaved_heads ? 3 * b.head_dim : b.head_dim;
  }
};

struct Sizes {
  std::int64_t batch, length, rows, hidden, heads, head_dim, query_width, key_width;

  Sizes(const at::Tensor& x_BLD, const AttentionBlock& b)
      : batch(x_BLD.size(0)),
        length(x_BLD.size(1)),
        rows(batch * length),
        hidden(x_BLD.size(2)),
        heads(b.num_heads),
        head_dim(b.head_dim),
        query_width(b.num_heads * b.head_dim),
        key_width(b.num_key_value_heads * b.head_dim) {}
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
      : x_(x_BLD), b_(std::move(block)), p_(std::move(positions)), s_(x_BLD, b_), c_(b_) {}

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
    const std::int64_t rows = s_.rows;
    take_forward_memory();
    const float* x = x_.const_data_ptr<float>();
    if (b_.before.is_there()) norm(b_.before, rows, {x, s_.hidden}, {normed_, s_.hidden}, before_);
    project();
    turn(projected_, 1);
    attend();
    at::Tensor y_BLD = at::empty_like(x_);
    auto* y = y_BLD.mutable_data_ptr<float>();
    if (b_.behind.is_there()) {
      linear(rows, b_.output, {attended_, s_.query_width}, {result_, s_.hidden});
      norm(b_.behind, rows, {result_, s_.hidden}, {y, s_.hidden}, behind_);
      if (b_.adds_input) kernels().sum_scaled(rows * s_.hidden, x, b_.residual_scale, y, y);
    } else {
      add_result(rows, b_.output, {attended_, s_.query_width}, b_.adds_input ? x : nullptr,
                 b_.residual_scale, y);
    }
    return y_BLD;
  }

 protected:
  at::Tensor input_half(const at::Tensor& gradient, bool wanted) override {
    const std::int64_t rows = s_.rows;
    const auto* dy = gradient.const_data_ptr<float>();
    take_backward_memory();
    const float* d_result = dy;
    float scale = b_.residual_scale;
    if (b_.behind.is_there()) {
      norm_gradient(b_.behind, rows, {dy, s_.hidden}, {result_, s_.hidden}, behind_, nullptr,
                    {d_result_, s_.hidden}, d_behind_);
      d_result = d_result_;
      scale_all(rows * s_.hidden, scale, d_result_);
      scale_all(b_.behind.weight_floats(), scale, d_behind_);
      scale = 1;
    }
    {
      const KeptBlock d_attended = take_memory(rows * s_.query_width);
      linear_input_gradient(rows, b_.output, {d_result, s_.hidden},
                            {d_attended.data(), s_.query_width}, scale);
      attend_gradient(d_attended.data());
    }
    turn(d_projected_, -1);
    if (b_.query_norm.is_there()) {
      head_norm_gradient(b_.query_norm, rows, s_.query_width, {d_projected_ + c_.queries, c_.width},
                         {raw_, raw_width()}, query_inverses_, d_query_norm_);
      head_norm_gradient(b_.key_norm, rows, s_.key_width, {d_projected_ + c_.keys, c_.width},
                         {raw_ + s_.query_width, raw_width()}, key_inverses_, d_key_norm_);
    }
    const bool trains_before = is_weight(kBefore) || is_weight(kBefore + 1);
    if (!wanted && !trains_before) return {};
    return gradient_of_input(dy);
  }

  void weight_half(const at::Tensor& gradient, WeightGradients& gradients) override {
    const bool has_behind = b_.behind.is_there();
    const ConstRows d_result{has_behind ? d_result_ : gradient.const_data_ptr<float>(), s_.hidden};
    give_linear(s_.rows, b_.output, kOutput, d_result, {attended_, s_.query_width},
                has_behind ? 1 : b_.residual_scale, gradients);
    const float* input = b_.before.is_there() ? normed_ : x_.const_data_ptr<float>();
    std::int64_t column = 0;
    for (std::size_t i = 0; i < b_.projections.size(); ++i) {
      const LinearWeights& projection = b_.projections[i];
      give_linear(s_.rows, projection, kProjections + 2 * i, {d_projected_ + column, c_.width},
                  {input, s_.hidden}, 1, gradients);
      column += projection.out();
    }
    give_norm(b_.before, kBefore, d_before_, gradients);
    give_norm(b_.behind, kBehind, d_behind_, gradients);
    if (gradients.wants(kQueryNorm)) gradients.give(kQueryNorm, d_query_norm_);
    if (gradients.wants(kKeyNorm)) gradients.give(kKeyNorm, d_key_norm_);
  }

  void free_input_half() override {
    only_input_.reset();
    if (b_.before.is_there()) x_.reset();  // else the weights' half reads it
    p_ = {};
  }
  void free_all() override {
    for (KeptBlock* memory : {&kept_, &only_input_, &gradients_}) memory->reset();
    x_.reset();
    p_ = {};
  }

 private:
  // Places in weights().
  static constexpr std::size_t kBefore = 0, kQueryNorm = 2, kKeyNorm = 3, kOutput = 4, kBehind = 6,
                               kProjections = 8;

  std::int64_t raw_width() const { return s_.query_width + s_.key_width; }

  void take_forward_memory() {
    const std::int64_t rows = s_.rows;
    const bool has_before = b_.before.is_there(), has_behind = b_.behind.is_there(),
               has_head_norms = b_.query_norm.is_there();
    kept_ = take_memory(rows * (s_.query_width + (has_before ? s_.hidden : 0)));
    Floats kept(kept_.data());
    attended_ = kept.take(rows * s_.query_width);
    if (has_before) normed_ = kept.take(rows * s_.hidden);
    const std::int64_t groups =
        has_head_norms ? s_.query_width / b_.query_norm.width() + s_.key_width / b_.key_norm.width()
                       : 0;
    only_input_ = take_memory(rows * (c_.width + s_.heads + (has_before ? kNormFloats : 0) +
                                      (has_behind ? s_.hidden + kNormFloats : 0) +
                                      (has_head_norms ? raw_width() + groups : 0)));
    Floats only(only_input_.data());
    projected_ = only.take(rows * c_.width);
    log_sums_ = only.take(rows * s_.heads);
    if (has_before) before_ = only.take(rows * kNormFloats);
    if (has_behind) {
      result_ = only.take(rows * s_.hidden);
      behind_ = only.take(rows * kNormFloats);
    }
    if (has_head_norms) {
      raw_ = only.take(rows * raw_width());
      query_inverses_ = only.take(rows * (s_.query_width / b_.query_norm.width()));
      key_inverses_ = only.take(rows * (s_.key_width / b_.key_norm.width()));
    }
  }

  void take_backward_memory() {
    const auto floats = [](const NormWeights& norm) {
      return norm.is_there() ? norm.weight_floats() : 0;
    };
    gradients_ = take_memory(s_.rows * (c_.width + (b_.behind.is_there() ? s_.hidden : 0)) +
                             floats(b_.before) + floats(b_.behind) + floats(b_.query_norm) +
                             floats(b_.key_norm));
    Floats all(gradients_.data());
    d_projected_ = all.take(s_.rows * c_.width);
    if (b_.behind.is_there()) d_result_ = all.take(s_.rows * s_.hidden);
    d_before_ = all.take(floats(b_.before));
    d_behind_ = all.take(floats(b_.behind));
    d_query_norm_ = all.take(floats(b_.query_norm));
    d_key_norm_ = all.take(floats(b_.key_norm));
  }

  void project() {
    const float* input = b_.before.is_there() ? normed_ : x_.const_data_ptr<float>();
    std::int64_t column = 0;
    for (const LinearWeights& projection : b_.projections) {
      linear(s_.rows, projection, {input, s_.hidden}, {projected_ + column, c_.width});
      column += projection.out();
    }
    if (!b_.query_norm.is_there()) return;
    for (std::int64_t row = 0; row < s_.rows; ++row) {
      std::memcpy(raw_ + row * raw_width(), projected_ + row * c_.width,
                  static_cast<std::size_t>(raw_width()) * sizeof(float));
    }
    head_norm(b_.query_norm, s_.rows, s_.query_width, {raw_, raw_width()},
              {projected_ + c_.queries, c_.width}, query_inverses_);
    head_norm(b_.key_norm, s_.rows, s_.key_width, {raw_ + s_.query_width, raw_width()},
              {projected_ + c_.keys, c_.width}, key_inverses_);
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
          rotate(c_.queries, s_.heads + b_.num_key_value_heads, s_.head_dim);
        }
      }
    });
  }

  // The call for the sequence and key-value head `index`.
  AttentionCall call(std::int64_t index, float* scratch) const {
    const std::int64_t sequence = index / b_.num_key_value_heads,
                       head = index % b_.num_key_value_heads,
                       group = s_.heads / b_.num_key_value_heads;
    const std::int64_t row = sequence * s_.length;
    const float* first = projected_ + row * c_.width;
    AttentionCall call;
    call.length = s_.length;
    call.group = group;
    call.head_dim = s_.head_dim;
    call.q = first + c_.queries + head * c_.of_next_head;
    call.k = first + c_.keys + head * c_.of_next_key;
    call.v = first + c_.values + head * c_.of_next_key;
    call.row_stride = c_.width;
    call.out = attended_ + row * s_.query_width + head * group * s_.head_dim;
    call.out_stride = s_.query_width;
    call.log_sums = log_sums_ + row * s_.heads + head * group * s_.length;
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
  void for_each_head(const Run& run) const {
    at::parallel_for(0, s_.batch * b_.num_key_value_heads, 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       const KeptBlock scratch =
                           take_memory(kernels().attention_scratch(s_.length, s_.head_dim));
                       for (std::int64_t index = begin; index < end; ++index)
                         run(index, call(index, scratch.data()));
                     });
  }

  void attend() const {
    for_each_head([](std::int64_t, const AttentionCall& call) { kernels().attention(call); });
  }

  void attend_gradient(const float* d_attended) const {
    for_each_head([&](std::int64_t index, const AttentionCall& forward) {
      const std::int64_t row = index / b_.num_key_value_heads * s_.length,
                         head = index % b_.num_key_value_heads;
      float* first = d_projected_ + row * c_.width;
      kernels().attention_gradient({.forward = forward,
                                    .d_out = d_attended + (forward.out - attended_),
                                    .dq = first + c_.queries + head * c_.of_next_head,
                                    .dk = first + c_.keys + head * c_.of_next_key,
                                    .dv = first + c_.values + head * c_.of_next_key});
    });
  }

  at::Tensor gradient_of_input(const float* dy) const {
    const std::int64_t rows = s_.rows;
    at::Tensor dx_BLD = at::empty_like(x_);
    auto* dx = dx_BLD.mutable_data_ptr<float>();
    if (b_.before.is_there()) {
      const KeptBlock d_normed = take_memory(rows * s_.hidden);
      project_gradient({d_normed.data(), s_.hidden}, /*adds=*/false);
      norm_gradient(b_.before, rows, {d_normed.data(), s_.hidden},
                    {x_.const_data_ptr<float>(), s_.hidden}, before_, b_.adds_input ? dy : nullptr,
                    {dx, s_.hidden}, d_before_);
    } else {
      if (b_.adds_input)
        std::memcpy(dx, dy, static_cast<std::size_t>(rows * s_.hidden) * sizeof(float));
      project_gradient({dx, s_.hidden}, b_.adds_input);
    }
    return dx_BLD;
  }

  void project_gradient(Rows d_input, bool adds) const {
    std::int64_t column = 0;
    for (const LinearWeights& projection : b_.projections) {
      linear_input_gradient(s_.rows, projection, {d_projected_ + column, c_.width}, d_input, 1,
                            adds);
      column += projection.out();
      adds = true;
    }
  }

  at::Tensor x_;
  const AttentionBlock b_;
  AttentionPositions p_;
  const Sizes s_;
  const Columns c_;
  KeptBlock kept_, only_input_, gradients_;
  float *attended_ = nullptr, *normed_ = nullptr;  // in kept_
  float *projected_ = nullptr, *log_sums_ = nullptr, *before_ = nullptr, *result_ = nullptr,
        *behind_ = nullptr, *raw_ = nullptr, *query_inverses_ = nullptr,
        *key_inverses_ = nullptr;  // in only_input_
  float *d_projected_ = nullptr, *d_result_ = nullptr, *d_before_ = nullptr, *d_behind_ = nullptr,
        *d_query_norm_ = nullptr, *d_key_norm_ = nullptr;  // in gradients_
};

}  // namespace

at::Tensor attention_block(const at::Tensor& x_BLD, const AttentionBlock& block,
                           const AttentionPositions& positions) {
  return run_node<AttentionNode>(x_BLD, block, positions);
}

}  // namespace sluice::ops
