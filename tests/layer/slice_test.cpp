#include "sluice/parts/values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "layer/initialize_chunks.h"
#include "layer/slice.h"
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

// A module whose parameter is what a rank holds.
struct Weight : torch::nn::Module {
  explicit Weight(const at::Tensor& value) { register_parameter("weight", value); }
};

// "a.weight" as one rank holds it, drawn.
at::Tensor drawn(const Shape& shape, const Slice& slice, at::ScalarType dtype,
                 bool with_own_function = false, bool strided = false) {
  LayerSpec layer;
  layer.name = "a";
  layer.make = [&]() -> std::shared_ptr<torch::nn::Module> {
    const Shape sizes = shape_of(slice, shape, "a.weight");
    return std::make_shared<Weight>(strided ? at::full({sizes[1], sizes[0]}, -1.0, dtype).t()
                                            : at::full(sizes, -1.0, dtype));
  };
  layer.forward = [](torch::nn::Module&, const std::vector<at::Tensor>& in) { return in; };
  if (with_own_function) {
    layer.initialize = [](const std::string&, const std::string& key, at::Tensor& value,
                          std::uint64_t seed) {
      keyed_normal_(value, seed, key, 1.0, 3.0);
      value.select(0, 1).zero_();
    };
  }
  Chunk chunk({layer}, 0, {"hidden"}, {"hidden"});
  chunk.parameters()[0].global_shape = shape;
  chunk.parameters()[0].slice = slice;
  initialize_parameters(chunk, 5);
  return chunk.parameters()[0].tensor.detach();
}

TEST(SlicedParametersTest, EveryRankDrawsItsPartOfTheWhole) {
  const Shape shape = {6, 10};
  const std::vector<Slice> parts = {{{0, 2}, {0, 10}}, {{2, 4}, {0, 10}}, {{0, 6}, {0, 3}},
                                    {{0, 6}, {3, 7}},  {{1, 3}, {4, 5}},  {{0, 6}, {0, 10}}};
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const bool with_own_function : {false, true}) {
      const at::Tensor whole = drawn(shape, {}, dtype, with_own_function);
      EXPECT_GT(whole.to(at::kDouble).std().item<double>(), 0.0);
      for (const Slice& part : parts) {
        EXPECT_TRUE(drawn(shape, part, dtype, with_own_function).equal(box_of(whole, part)))
            << to_text(part) << " " << with_own_function;
      }
      EXPECT_TRUE(drawn(shape, parts[4], dtype, with_own_function, /*strided=*/true)
                      .equal(box_of(whole, parts[4])));
    }
  }
}

TEST(SlicedParametersTest, VectorsOfOnesStayOnes) {
  EXPECT_TRUE(drawn({6}, {{2, 3}}, at::kFloat).equal(at::ones({3})));
}

TEST(SlicedParametersTest, ATensorThatIsNotItsSliceIsRefused) {
  LayerSpec layer;
  layer.name = "a";
  layer.make = [] { return std::make_shared<Weight>(at::zeros({2, 2})); };
  layer.forward = [](torch::nn::Module&, const std::vector<at::Tensor>& in) { return in; };
  Chunk chunk({layer}, 0, {"hidden"}, {"hidden"});
  chunk.parameters()[0].global_shape = {4, 2};
  const Error error = error_of([&] { initialize_parameters(chunk, 5); });
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_EQ(error.where(), "'a.weight'");
}

}  // namespace
}  // namespace sluice
