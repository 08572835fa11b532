#include "ops/attention_block.h"

#include <ATen/Parallel.h>
#include <cstring>
#include <utility>

#include "ops/half_block.h"
#include "ops/kernels/kernels.h"
#include "ops/parallel_rows.h"

namespace sluice::ops {
namespace {

// Columns of the projected matrix where a slice's queries, keys and values begin.
struct Columns {
  std::int64_t width, queries, keys, values;
  std::int64_t of_next_head;
  std::int64_t of_next_key;

  explicit Columns(const AttentionBlock& b) {
    const std::int64_t slices = b.half.slices.slices().count;
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

struct Sizes {
  std::int64_t batch, length, heads, key_value_heads, head_dim, query_width, key_width;

  Sizes(const at::Tensor& x_BLD, const AttentionBlock& b)
      : batch(x_BLD.size(0)),
        length(x_BLD.size(1) * (divides_rows(b.half.slices) ? b.half.slices.degree() : 1)),
        heads(b.num_heads / b.half.slices.slices().count),
        key_value_heads(b.num_key_value_heads / b.half.slices.slices().count),
        head_dim(b.head_dim),
        query_width(heads * b.head_dim),
        key_width(key_value_heads * b.head_dim) {}
};

// Applies an RMS norm to groups of norm.width() floats, in the first `columns` floats of each row.
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

class AttentionNode final : public HalfBlockNode {
 public:
  AttentionNode(const at::Tensor& x_BLD, AttentionBlock block, AttentionPositions positions)
      : HalfBlockNode(x_BLD, block.half),
        b_(std::move(block)),
        p_(std::move(positions)),
        s_(x_BLD, b_),
        c_(b_) {}

  std::string name() const override { return "AttentionBlock"; }

 private:
  std::vector<at::Tensor> weights_inside() const override {
    return {b_.query_norm.weight, b_.key_norm.weight};
  }

  void free_input_half() override {
    HalfBlockNode::free_input_half();
    p_ = {};
  }
  void free_all() override {
    HalfBlockNode::free_all();
    p_ = {};
  }

  void take_forward_memory() override {
    const bool has_head_norms = b_.query_norm.is_there();
    kept_ = take_memory(rows_ * own_ * s_.query_width + kept_floats());
    Floats kept(kept_.data());
    attended_ = kept.take(rows_ * own_ * s_.query_width);
    place_kept(kept);
    const std::int64_t groups = has_head_norms ? groups_of(false) + groups_of(true) : 0;
    only_input_ = take_memory(
        rows_ * own_ * (c_.width + s_.heads + (has_head_norms ? raw_width() + groups : 0)) +
        input_floats());
    Floats only(only_input_.data());
    projected_ = only.take(rows_ * own_ * c_.width);
    log_sums_ = only.take(rows_ * own_ * s_.heads);
    place_input(only);
    if (has_head_norms) {
      raw_ = only.take(rows_ * own_ * raw_width());
      query_inverses_ = only.take(rows_ * own_ * groups_of(false));
      key_inverses_ = only.take(rows_ * own_ * groups_of(true));
    }
  }

  void take_backward_memory() override {
    const auto floats = [](const NormWeights& norm) {
      return norm.is_there() ? norm.weight_floats() : 0;
    };
    const std::int64_t of_queries = floats(b_.query_norm), of_keys = floats(b_.key_norm);
    gradients_ = take_memory(rows_ * own_ * c_.width + result_floats() + sum_floats() + of_queries +
                             of_keys);
    Floats all(gradients_.data());
    d_projected_ = all.take(rows_ * own_ * c_.width);
    d_result_ = all.take(result_floats());
    place_sums(all, of_queries + of_keys);
  }

  std::vector<Product> products(std::int64_t slice) const override {
    std::vector<Product> products;
    for (std::size_t i = 0; i < half_.projections.size(); ++i) {
      for (const Outputs& one : outputs(i, slice)) {
        products.push_back({.projection = i,
                            .part = one.part,
                            .y = {projected(slice) + one.column, c_.width},
                            .dy = {d_projected(slice) + one.column, c_.width}});
      }
    }
    return products;
  }

  LinearPart inputs(std::int64_t slice) const override {
    return {.of_inputs = true,
            .first = slice * s_.query_width,
            .size = s_.query_width,
            .length = b_.num_heads * s_.head_dim};
  }
  ConstRows inner(std::int64_t slice) const override { return {attended(slice), s_.query_width}; }

  void run(std::int64_t slice) override {
    norm_heads(slice);
    turn(projected(slice), 1);
    attend(slice);
  }

  void run_gradient(std::int64_t slice, const float* d_attended) override {
    attend_gradient(slice, d_attended);
    turn(d_projected(slice), -1);
  }

  // Replaces the gradients in d_projected by the gradients of the query and key norms' inputs.
  void finish_gradients() override {
    if (!b_.query_norm.is_there()) return;
    for (const bool of_keys : {false, true}) {
      const NormWeights& norm = of_keys ? b_.key_norm : b_.query_norm;
      const std::int64_t before = of_keys ? s_.query_width : 0;
      sum_slices(0, own_, norm.width(), d_head_norm(of_keys), [&](std::int64_t slice, float* to) {
        head_norm_gradient(norm, rows_, of_keys ? s_.key_width : s_.query_width,
                           {d_projected(slice) + (of_keys ? c_.keys : c_.queries), c_.width},
                           {raw(slice) + before, raw_width()}, inverses(slice, of_keys), to);
      });
    }
  }

  void give_inside(WeightGradients& gradients) override {
    for (const bool of_keys : {false, true}) {
      const std::size_t weight = kProjections + 2 * half_.projections.size() + of_keys;
      if (gradients.wants(weight)) gradients.give(weight, d_head_norm(of_keys));
    }
  }

  std::int64_t raw_width() const { return s_.query_width + s_.key_width; }
  std::int64_t groups_of(bool of_keys) const {
    return of_keys ? s_.key_width / b_.key_norm.width() : s_.query_width / b_.query_norm.width();
  }
  float* d_head_norm(bool of_keys) const {
    return d_inside_ + (of_keys ? b_.query_norm.weight_floats() : 0);
  }
  float* projected(std::int64_t slice) const { return projected_ + slice * rows_ * c_.width; }
  float* d_projected(std::int64_t slice) const { return d_projected_ + slice * rows_ * c_.width; }
  float* attended(std::int64_t slice) const { return attended_ + slice * rows_ * s_.query_width; }
  float* raw(std::int64_t slice) const { return raw_ + slice * rows_ * raw_width(); }
  float* inverses(std::int64_t slice, bool of_keys) const {
    return (of_keys ? key_inverses_ : query_inverses_) + slice * rows_ * groups_of(of_keys);
  }

  // Outputs of a projection for a slice, and their first column in a row.
  struct Outputs {
    LinearPart part;
    std::int64_t column = 0;
  };
  std::vector<Outputs> outputs(std::size_t projection, std::int64_t slice) const {
    const std::int64_t q = s_.query_width, k = s_.key_width, num = half_.slices.slices().count;
    const auto part = [&](std::int64_t before, std::int64_t width) {
      return LinearPart{
          .first = before * own_ + slice * width, .size = width, .length = width * num};
    };
    if (half_.projections.size() > 1) {
      if (projection == 0) return {{part(0, q), 0}};
      return {{part(0, k), projection == 1 ? q : q + k}};
    }
    if (b_.interleaved_heads || !sliced_) return {{part(0, c_.width), 0}};
    return {{part(0, q), 0}, {part(q, k), q}, {part(q + k, k), q + k}};
  }

  void turn(float* projected, float direction) const {
    if (!p_.cosines.defined()) return;
    const std::int64_t half = p_.cosines.size(-1), length = s_.length;
    const bool of_rows = p_.cosines.dim() == 4;
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
        } else {
          rotate(c_.queries, s_.heads + s_.key_value_heads, s_.head_dim);
        }
      }
    });
  }

  void norm_heads(std::int64_t slice) {
    if (!b_.query_norm.is_there()) return;
    float* first = projected(slice);
    for (std::int64_t row = 0; row < rows_; ++row) {
      std::memcpy(raw(slice) + row * raw_width(), first + row * c_.width,
                  static_cast<std::size_t>(raw_width()) * sizeof(float));
    }
    head_norm(b_.query_norm, rows_, s_.query_width, {raw(slice), raw_width()},
              {first + c_.queries, c_.width}, inverses(slice, /*of_keys=*/false));
    head_norm(b_.key_norm, rows_, s_.key_width, {raw(slice) + s_.query_width, raw_width()},
              {first + c_.keys, c_.width}, inverses(slice, /*of_keys=*/true));
  }

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
    call.log_sums = log_sums_ + (slice * rows_ + row) * s_.heads + head * group * s_.length;
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

  const AttentionBlock b_;
  AttentionPositions p_;
  const Sizes s_;
  const Columns c_;
  float* attended_ = nullptr;
  float *projected_ = nullptr, *log_sums_ = nullptr, *raw_ = nullptr, *query_inverses_ = nullptr,
        *key_inverses_ = nullptr;
  float* d_projected_ = nullptr;
};

}  // namespace

at::Tensor attention_block(const at::Tensor& x_BLD, const AttentionBlock& block,
                           const AttentionPositions& positions) {
  return run_node<AttentionNode>(x_BLD, block, positions);
}

}  // namespace sluice::ops
