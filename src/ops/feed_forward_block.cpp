#include "ops/feed_forward_block.h"

#include "ops/half_block.h"
#include "ops/parallel_rows.h"
#include "plan/slices.h"

namespace sluice::ops {
namespace {

class FeedForwardNode final : public HalfBlockNode {
 public:
  FeedForwardNode(const at::Tensor& x_BLD, const FeedForwardBlock& block)
      : HalfBlockNode(x_BLD, block.half),
        activation_(block.activation),
        is_gated_(block.is_gated),
        width_(block.width),
        inner_(half_.last.in()),
        num_inner_(is_gated_ ? 2 : 1),
        is_one_matrix_(half_.projections.size() == 1 && is_gated_ && !sliced_) {
    const SliceRange own = half_.slices.slices();
    std::int64_t first = 0;
    for (int slice = own.begin; slice < own.end; ++slice) {
      const std::int64_t size =
          own.count == 1 ? inner_ : detail::cut_of(width_, {slice, slice + 1, own.count}).size();
      slices_.push_back({first, size, floats_});
      first += size;
      floats_ += matrix_floats(size);
    }
  }

  std::string name() const override { return "FeedForwardBlock"; }

 private:
  // A slice's columns in this rank's part of the inner layer.
  struct Slice {
    std::int64_t first, size;
    // Offset of the slice's memory, in floats of a single matrix.
    std::int64_t at;
  };

  void take_forward_memory() override {
    kept_ = take_memory((num_inner_ + 1) * floats_ + kept_floats());
    Floats kept(kept_.data());
    projected_ = kept.take(num_inner_ * floats_);
    activated_ = kept.take(floats_);
    place_kept(kept);
    only_input_ = take_memory(input_floats());
    Floats only(only_input_.data());
    place_input(only);
  }

  void take_backward_memory() override {
    gradients_ = take_memory(result_floats() + sum_floats());
    Floats all(gradients_.data());
    place_sums(all, 0);
    d_result_ = all.take(result_floats());
  }

  // If one weight yields adjacent columns of gate and up, a single product computes both. Otherwise
  // each gets a matrix, whose shorter rows use the cache better. Gradients later overwrite the
  // products.
  std::vector<Product> products(std::int64_t index) const override {
    const Slice& slice = of(index);
    if (is_one_matrix_) {
      const Rows all{projected_, num_inner_ * inner_};
      return {{.part = {.first = 0, .size = num_inner_ * inner_}, .y = all, .dy = all}};
    }
    std::vector<Product> products;
    for (std::int64_t i = 0; i < num_inner_; ++i) {
      const bool has_own = half_.projections.size() > 1;
      const Rows rows{projected(slice, i), slice.size};
      products.push_back({.projection = has_own ? static_cast<std::size_t>(i) : 0,
                          .part = {.first = (has_own ? 0 : i * inner_) + slice.first,
                                   .size = slice.size,
                                   .length = width_},
                          .y = rows,
                          .dy = rows});
    }
    return products;
  }

  LinearPart inputs(std::int64_t index) const override {
    const Slice& slice = of(index);
    return {.of_inputs = true, .first = slice.first, .size = slice.size, .length = width_};
  }
  ConstRows inner(std::int64_t index) const override {
    return {activated_ + of(index).at, of(index).size};
  }

  void run(std::int64_t index) override {
    const Slice& slice = of(index);
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      float* to = activated_ + slice.at + begin * slice.size;
      const float* from = projected(slice, 0) + begin * apart(slice);
      if (is_gated_) {
        kernels().gated(activation_, end - begin, slice.size, from,
                        up(slice) + begin * apart(slice), apart(slice), to);
      } else {
        kernels().activation(activation_, (end - begin) * slice.size, from, to);
      }
    });
  }

  void run_gradient(std::int64_t index, const float* d_activated) override {
    const Slice& slice = of(index);
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      const float* from = d_activated + begin * slice.size;
      float* to = projected(slice, 0) + begin * apart(slice);
      if (is_gated_) {
        kernels().gated_gradient(activation_, end - begin, slice.size, to,
                                 up(slice) + begin * apart(slice), apart(slice), from);
      } else {
        kernels().activation_gradient(activation_, (end - begin) * slice.size, to, from);
      }
    });
  }

  const Slice& of(std::int64_t index) const { return slices_[static_cast<std::size_t>(index)]; }
  std::int64_t matrix_floats(std::int64_t width) const {
    return sliced_ ? aligned_floats(rows_ * width) : rows_ * width;
  }
  std::int64_t apart(const Slice& slice) const {
    return is_one_matrix_ ? num_inner_ * inner_ : slice.size;
  }
  float* projected(const Slice& slice, std::int64_t i) const {
    return projected_ + num_inner_ * slice.at + i * matrix_floats(slice.size);
  }
  float* up(const Slice& slice) const {
    return is_one_matrix_ ? projected_ + inner_ : projected(slice, 1);
  }

  const Activation activation_;
  const bool is_gated_;
  const std::int64_t width_, inner_, num_inner_;  // width_: on all ranks; inner_: on this rank
  const bool is_one_matrix_;
  std::vector<Slice> slices_;
  std::int64_t floats_ = 0;  // total size of one matrix per slice
  float *projected_ = nullptr, *activated_ = nullptr;
};

}  // namespace

at::Tensor feed_forward_block(const at::Tensor& x_BLD, const FeedForwardBlock& block) {
  return run_node<FeedForwardNode>(x_BLD, block);
}

}  // namespace sluice::ops
