#include "sluice/parts/values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "layer/initialize_chunks.h"
#include "layer/slice.h"
#include "plan/slices.h"
#include "sluice/layer.h"
#include "sluice/parts/chunk.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

using test::error_of;
using Shape = std::vector<std::int64_t>;

at::Tensor box_of(at::Tensor whole, const Slice& slice) {
  for (std::size_t d = 0; d < slice.size(); ++d)
    whole = whole.narrow(static_cast<std::int64_t>(d), slice[d].offset, slice[d].size);
  return whole;
}

TEST(SliceTest, RunsAreTheElementsOfTheBoxInOrder) {
  const std::vector<std::pair<Shape, Slice>> cases = {
      {{}, {}},
      {{7}, {}},
      {{7}, {{2, 3}}},
      {{4, 5}, {{1, 2}, {0, 5}}},
      {{4, 5}, {{0, 4}, {3, 2}}},
      {{4, 5}, {{2, 1}, {1, 3}}},
      {{3, 4, 5}, {{1, 2}, {1, 2}, {0, 5}}},
      {{3, 4, 5}, {{0, 3}, {0, 4}, {4, 1}}},
      {{3, 4, 5}, {{1, 2}, {0, 4}, {0, 5}}},
      {{3, 4, 5}, {{1, 0}, {0, 4}, {0, 5}}},
  };
  for (const auto& [shape, slice] : cases) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    const at::Tensor whole = at::arange(count).reshape(shape);
    const at::Tensor expected = box_of(whole, slice).contiguous().view(-1);
    at::Tensor found = at::full_like(expected, -1);
    for_each_run(slice, shape, [&](std::int64_t in_whole, std::int64_t in_box, std::int64_t n) {
      EXPECT_EQ(found[in_box].item<int>(), -1);
      found.narrow(0, in_box, n).copy_(whole.view(-1).narrow(0, in_whole, n));
    });
    EXPECT_TRUE(found.equal(expected)) << to_text(slice);
    EXPECT_EQ(shape_of(slice, shape, "x"), box_of(whole, slice).sizes().vec());
    EXPECT_EQ(is_whole(slice, shape), expected.numel() == count) << to_text(slice);
  }
}

TEST(SliceTest, WholeRowsAreOneRun) {
  int num_runs = 0;
  for_each_run({{1, 2}, {0, 4}, {0, 5}}, {3, 4, 5}, [&](auto first, auto, auto count) {
    ++num_runs;
    EXPECT_EQ(first, 20);
    EXPECT_EQ(count, 40);
  });
  EXPECT_EQ(num_runs, 1);
}

TEST(SliceTest, RefusesWhatReachesBeyondTheTensor) {
  for (const Slice& slice : {Slice{{0, 3}, {0, 2}}, Slice{{3, 1}, {0, 2}}, Slice{{-1, 1}, {0, 2}},
                             Slice{{0, -1}, {0, 2}}, Slice{{0, 2}}}) {
    const Error error = error_of([&] { shape_of(slice, {2, 2}, "a.weight"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(error.what()).find("'a.weight'"), std::string::npos) << error.what();
  }
}

struct Weight : torch::nn::Module {
  explicit Weight(const at::Tensor& value) { register_parameter("weight", value); }
};

// A layer "a" whose module's weight is `value`, the `held` slices of the whole weight.
LayerSpec holding(const at::Tensor& value, const ParameterSlices& held) {
  LayerSpec layer;
  layer.name = "a";
  layer.make = [value] { return std::make_shared<Weight>(value); };
  layer.forward = [](torch::nn::Module&, const std::vector<at::Tensor>& in) { return in; };
  layer.slices = {{"weight", held}};
  return layer;
}

// Initializes "a.weight" on a rank that holds these slices, and returns it.
at::Tensor drawn(const ParameterSlices& held, at::ScalarType dtype, bool with_own_function = false,
                 bool strided = false) {
  const Shape sizes =
      held.split ? detail::sliced_shape(held.global_shape, *held.split, held.slices, "a.weight")
                 : held.global_shape;
  LayerSpec layer = holding(
      strided ? at::full({sizes[1], sizes[0]}, -1.0, dtype).t() : at::full(sizes, -1.0, dtype),
      held);
  if (with_own_function) {
    layer.initialize = [](const std::string&, const std::string& key, at::Tensor& value,
                          std::uint64_t seed) {
      keyed_normal_(value, seed, key, 1.0, 3.0);
      value.select(0, 1).zero_();
    };
  }
  Chunk chunk({layer}, 0, {"hidden"}, {"hidden"});
  initialize_parameters(chunk, 5);
  return chunk.parameters()[0].tensor.detach();
}

at::Tensor held_of(const at::Tensor& whole, const ParameterSlices& held) {
  std::vector<at::Tensor> parts;
  for (const detail::Cut& cut : detail::cuts_of(held.global_shape, *held.split, held.slices, "x"))
    parts.push_back(whole.narrow(held.split->dim, cut.begin, cut.size()));
  return at::cat(parts, held.split->dim);
}

std::vector<ParameterSplit> splits_of(const Shape& shape) {
  return {{.dim = 0},
          {.dim = 1},
          {.dim = 0, .sections = {shape[0] - 5, 2, 3}},
          {.dim = 1, .sections = {4, shape[1] - 4}}};
}

TEST(SlicedParametersTest, EveryRankDrawsItsPartOfTheWhole) {
  const Shape shape = {9, 10};
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const bool with_own_function : {false, true}) {
      const at::Tensor whole = drawn({.global_shape = shape}, dtype, with_own_function);
      EXPECT_GT(whole.to(at::kDouble).std().item<double>(), 0.0);
      for (const ParameterSplit& split : splits_of(shape)) {
        for (const SliceRange& slices :
             {SliceRange{0, 4, 4}, SliceRange{0, 2, 4}, SliceRange{2, 4, 4}, SliceRange{3, 4, 4}}) {
          const ParameterSlices held = {.global_shape = shape, .split = split, .slices = slices};
          const at::Tensor expected = held_of(whole, held);
          EXPECT_TRUE(drawn(held, dtype, with_own_function).equal(expected));
          EXPECT_TRUE(drawn(held, dtype, with_own_function, /*strided=*/true).equal(expected));
        }
      }
    }
  }
}

TEST(SlicedParametersTest, VectorsOfOnesStayOnes) {
  EXPECT_TRUE(drawn({.global_shape = {6}, .split = {{.dim = 0}}, .slices = {1, 2, 2}}, at::kFloat)
                  .equal(at::ones({3})));
}

TEST(SlicedParametersTest, ARankThatHasAllSlicesHoldsTheParameterAsItIs) {
  const ParameterSlices held = {
      .global_shape = {6, 2}, .split = {{.dim = 0, .sections = {4, 2}}}, .slices = {0, 2, 2}};
  const at::Tensor value = at::arange(12, at::kFloat).view({6, 2});
  Chunk chunk({holding(value, held)}, 0, {"hidden"}, {"hidden"});
  const ParameterInfo& info = chunk.parameters()[0];
  EXPECT_TRUE(info.is_whole());
  EXPECT_EQ(info.boxes(), (std::vector<Slice>{{{0, 6}, {0, 2}}}));
}

TEST(SlicedParametersTest, ASliceIsAPartOfEverySection) {
  ParameterSlices held = {
      .global_shape = {12, 2}, .split = {{.dim = 0, .sections = {8, 4}}}, .slices = {2, 4, 4}};
  const at::Tensor value = at::arange(12, at::kFloat).view({6, 2});
  Chunk chunk({holding(value, held)}, 0, {"hidden"}, {"hidden"});
  const ParameterInfo& info = chunk.parameters()[0];
  EXPECT_EQ(info.boxes(), (std::vector<Slice>{{{4, 4}, {0, 2}}, {{10, 2}, {0, 2}}}));
  EXPECT_FALSE(info.is_whole());
  const std::vector<at::Tensor> last = parts_of_slice(info, value, 3);
  ASSERT_EQ(last.size(), 2U);
  EXPECT_TRUE(last[0].equal(value.narrow(0, 2, 2)));
  EXPECT_TRUE(last[1].equal(value.narrow(0, 5, 1)));
}

struct Sliced : torch::nn::Module, SlicedModule {
  explicit Sliced(std::vector<std::pair<std::string, ParameterSlices>> declared)
      : declared_(std::move(declared)) {
    register_parameter("weight", at::zeros({2, 4}));
    register_parameter("scale", at::zeros({4}));
    register_parameter("scale_1", at::zeros({4}));
  }
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override { return declared_; }
  std::vector<std::pair<std::string, ParameterSlices>> declared_;
};
struct Outer : torch::nn::Module {
  explicit Outer(std::shared_ptr<Sliced> inner) { register_module("inner", std::move(inner)); }
};

ParameterSlices shared(int slice, const std::string& first_use = "") {
  return {.global_shape = {4},
          .slices = {slice, slice + 1, 4},
          .summed = {Axis::kTp},
          .first_use = first_use};
}

TEST(SlicedParametersTest, AModuleInsideSaysWhatItHolds) {
  LayerSpec layer;
  layer.name = "a";
  layer.make = [] {
    return std::make_shared<Outer>(
        std::make_shared<Sliced>(std::vector<std::pair<std::string, ParameterSlices>>{
            {"weight", {.global_shape = {4, 4}, .split = {{.dim = 0}}, .slices = {2, 4, 4}}},
            {"scale", shared(2)},
            {"scale_1", shared(3, "scale")}}));
  };
  layer.forward = [](torch::nn::Module&, const std::vector<at::Tensor>& in) { return in; };
  Chunk chunk({layer}, 0, {"hidden"}, {"hidden"});
  ASSERT_EQ(chunk.parameters().size(), 3U);
  const ParameterInfo& weight = chunk.parameters()[0];
  EXPECT_EQ(weight.global_shape, (Shape{4, 4}));
  EXPECT_EQ(weight.slices, (SliceRange{2, 4, 4}));
  EXPECT_TRUE(weight.summed.empty());
  const ParameterInfo& scale = chunk.parameters()[2];
  EXPECT_TRUE(scale.summed.has(Axis::kTp));
  EXPECT_EQ(scale.tied_to, "a.inner.scale");
  EXPECT_EQ(scale.tensor.const_data_ptr(), chunk.parameters()[1].tensor.const_data_ptr());
  EXPECT_TRUE(scale.is_whole());
}

std::string refusal(const at::Tensor& value, const ParameterSlices& held) {
  const Error error = error_of([&] { Chunk({holding(value, held)}, 0, {"hidden"}, {"hidden"}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(std::string(error.what()).find("'a.weight'"), std::string::npos) << error.what();
  return error.what();
}

TEST(SlicedParametersTest, WhatIsNoPartOfTheParameterIsRefused) {
  const auto expect = [](const std::string& refused, const std::string& why) {
    EXPECT_NE(refused.find(why), std::string::npos) << refused;
  };
  const at::Tensor value = at::zeros({2, 2});
  const ParameterSlices half = {.global_shape = {4, 2}, .split = {{.dim = 0}}, .slices = {0, 1, 2}};
  expect(refusal(at::zeros({3, 2}), half),
         "slices 0 to 1 of 2 of [4, 2] are [2, 2], but its tensor is [3, 2]");
  ParameterSlices wrong = half;
  wrong.split->dim = 2;
  expect(refusal(value, wrong), "along dimension 2, but its shape is [4, 2]");
  wrong = half;
  wrong.split->sections = {1, 2};
  expect(refusal(value, wrong), "do not add up to dimension 0");
  wrong = half;
  wrong.slices = {2, 3, 2};
  expect(refusal(value, wrong), "slices 2 to 3 are not a range of 2 slices");
  expect(refusal(value, {.global_shape = {2, 2}, .slices = {0, 2, 2}, .summed = {Axis::kTp}}),
         "one variable stands for slices 0 to 2");
  LayerSpec layer = holding(value, half);
  layer.slices[0].first = "wieght";
  const Error error = error_of([&] { Chunk({layer}, 0, {"hidden"}, {"hidden"}); });
  expect(error.what(), "'weight'");
}

}  // namespace
}  // namespace sluice
