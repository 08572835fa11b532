#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "layer/initialize_chunks.h"
#include "layer/split_backward.h"
#include "parallel/counted_operators.h"
#include "parallel/shared_weights.h"
#include "parallel/slice_ranks.h"
#include "support/expect_error.h"

namespace sluice::test {
namespace parallel_layers_test {
namespace {

constexpr std::int64_t kBatch = 3, kLength = 16, kHidden = 24, kWide = 90, kVocabulary = 101;
constexpr std::int64_t kHeads = 4, kHead = 6;

void expect_error(ErrorKind kind, const std::string& part, const std::function<void()>& call) {
  const Error error = error_of(call);
  EXPECT_EQ(error.kind(), kind);
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

// Sets each parameter of a layer to its part of the whole, whose values depend only on the name.
void fill(torch::nn::Module& module, const std::string& name,
          const std::vector<std::pair<std::string, ParameterSlices>>& slices,
          const SliceGroup& tp) {
  const at::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    at::Tensor parameter = item.value();
    if (!parameter.defined()) continue;
    const auto declared = std::find_if(slices.begin(), slices.end(),
                                       [&](const auto& each) { return each.first == item.key(); });
    if (declared == slices.end()) {
      parameter.copy_(drawn(name + "." + item.key(), parameter.sizes(), 0.3));
      continue;
    }
    const at::Tensor whole = drawn(name + "." + item.key(), declared->second.global_shape, 0.3);
    const auto& split = *declared->second.split;
    std::vector<std::int64_t> sections = split.sections;
    if (sections.empty()) sections = {whole.size(split.dim)};
    std::vector<at::Tensor> parts;
    std::int64_t begin = 0;
    for (const std::int64_t section : sections) {
      const IndexRange range = tp.range(section);
      parts.push_back(whole.narrow(split.dim, begin + range.offset, range.size));
      begin += section;
    }
    parameter.copy_(at::cat(parts, split.dim));
  }
}

FoundByName small_model(const SliceGroup& tp) {
  ParallelEmbedding embed(kVocabulary, kHidden, tp);
  ColumnParallelLinear qkv(
      kHidden, 3 * kHidden, tp,
      ColumnParallelOptions{.gather_output = false, .sections = {kHidden, kHidden, kHidden}});
  RowParallelLinear out(kHidden, kHidden, tp, RowParallelOptions{.input_is_parallel = true});
  ColumnParallelLinear up(kHidden, kWide, tp, ColumnParallelOptions{.gather_output = false});
  RowParallelLinear down(kWide, kHidden, tp, RowParallelOptions{.input_is_parallel = true});
  ColumnParallelLinear head(kHidden, kVocabulary, tp,
                            ColumnParallelOptions{.bias = false, .gather_output = false});
  fill(*embed, "embed", embed->slices(), tp);
  fill(*qkv, "qkv", qkv->slices(), tp);
  fill(*out, "out", out->slices(), tp);
  fill(*up, "up", up->slices(), tp);
  fill(*down, "down", down->slices(), tp);
  fill(*head, "head", head->slices(), tp);
  const at::Tensor norm = drawn("norm", {kHidden}).requires_grad_();
  const at::Tensor scale = drawn("scale", {kHidden}).requires_grad_();
  const at::Tensor shift = drawn("shift", {kHidden}).requires_grad_();

  const at::Tensor ids =
      at::arange(kBatch * kLength).mul(37).remainder(kVocabulary).view({kBatch, kLength});
  at::Tensor labels =
      at::arange(kBatch * kLength).mul(53).remainder(kVocabulary).view({kBatch, kLength}).clone();
  labels[1][3] = -100;

  at::Tensor x = embed(ids);
  std::vector<at::Tensor> heads;
  for (const at::Tensor& of_slice :
       qkv->slices_of(detail::rms_norm_shared(x, {kHidden}, norm, 1e-6, tp))) {
    const auto parts = of_slice.chunk(3, -1);
    const auto split = [&](const at::Tensor& part) {
      return part.unflatten(-1, {-1, kHead}).transpose(1, 2);
    };
    heads.push_back(at::scaled_dot_product_attention(split(parts[0]), split(parts[1]),
                                                     split(parts[2]), {}, 0.0, true)
                        .transpose(1, 2)
                        .flatten(2));
  }
  x = x + out->forward_slices(heads);
  std::vector<at::Tensor> wide =
      up->slices_of(detail::layer_norm_shared(x, {kHidden}, scale, shift, 1e-5, tp));
  for (at::Tensor& of_slice : wide) of_slice = at::relu(of_slice);
  x = x + down->forward_slices(wide);
  const at::Tensor losses = parallel_cross_entropy(head->slices_of(x), labels, kVocabulary, tp);
  losses.sum().backward();

  FoundByName found;
  found["losses"] = {losses};
  found["x"] = {x, tp.sequence_parallel() && tp.degree() > 1 ? 1 : -1};
  found["norm"] = {norm.grad()}, found["scale"] = {scale.grad()}, found["shift"] = {shift.grad()};
  found["embed"] = {embed->weight.grad(), 0};
  for (const auto& [name, weight] : {std::pair("q", 0), std::pair("k", 1), std::pair("v", 2)}) {
    const auto third = [&](const at::Tensor& all) { return all.chunk(3, 0)[weight]; };
    found[std::string(name) + ".weight"] = {third(qkv->weight.grad()), 0};
    found[std::string(name) + ".bias"] = {third(qkv->bias.grad()), 0};
  }
  found["out.weight"] = {out->weight.grad(), 1}, found["out.bias"] = {out->bias.grad()};
  found["up.weight"] = {up->weight.grad(), 0}, found["up.bias"] = {up->bias.grad(), 0};
  found["down.weight"] = {down->weight.grad(), 1}, found["down.bias"] = {down->bias.grad()};
  found["head"] = {head->weight.grad(), 0};
  return found;
}

TEST(ParallelLayersTest, HaveTheSameBitsForEveryDegreeWithRowsDividedAndWhole) {
  for (const int slices : {2, 4}) {
    const Whole one = on_slice_ranks({1, slices, false}, small_model);
    for (int degree = 1; degree <= slices; degree *= 2) {
      for (const bool sequence : {false, true}) {
        const SliceLayout layout{degree, slices, sequence};
        expect_same_bits(one, on_slice_ranks(layout, small_model), name_of(layout));
      }
    }
  }
}

TEST(ParallelLayersTest, AreAsFarFromOneSliceAsRoundingIs) {
  Whole unsliced = on_slice_ranks({1, 1, false}, small_model);
  unsliced.erase("k.bias");  // softmax cancels this bias, so its gradient is rounding noise
  for (const int slices : {2, 4})
    EXPECT_LT(distance(unsliced, on_slice_ranks({1, slices, false}, small_model)), 2e-6);
}

// A partial sum must be a separate product followed by an addition. A product that accumulates
// rounds differently when its depth is divided.
TEST(ParallelLayersTest, APartialSumIsAProductAndThenAnAddition) {
  const std::int64_t in = 2048, out = 64, rows = 48;
  const at::Tensor x = drawn("deep", {1, rows, in}), weight = drawn("deep.weight", {out, in});
  const Whole found = on_slice_ranks({1, 4, false}, [&](const SliceGroup& tp) -> FoundByName {
    RowParallelLinear layer(in, out, tp,
                            RowParallelOptions{.bias = false, .input_is_parallel = true});
    const at::NoGradGuard no_grad;
    layer->weight.copy_(weight);
    return {{"y", {layer(x)}}};
  });
  std::vector<at::Tensor> parts;
  for (int slice = 0; slice < 4; ++slice)
    parts.push_back(at::linear(x.narrow(-1, slice * 512, 512), weight.narrow(1, slice * 512, 512)));
  EXPECT_TRUE(same_bits(found.at("y"), (parts[0] + parts[1]) + (parts[2] + parts[3])));
  EXPECT_FALSE(same_bits(found.at("y"), ((parts[0] + parts[1]) + parts[2]) + parts[3]));
}

TEST(ParallelLayersTest, ARowParallelBiasIsAddedOnce) {
  for (const bool sequence : {false, true}) {
    const Whole found = on_slice_ranks({4, 4, sequence}, [&](const SliceGroup& tp) -> FoundByName {
      RowParallelLinear layer(kWide, kHidden, tp, RowParallelOptions{.input_is_parallel = true});
      const at::NoGradGuard no_grad;
      layer->weight.zero_();
      layer->bias.copy_(at::arange(kHidden));
      const at::Tensor y = layer(at::ones({kBatch, kLength, tp.range(kWide).size}));
      return {{"y", {y, sequence ? 1 : -1}}};
    });
    EXPECT_TRUE(same_bits(found.at("y"),
                          at::arange(kHidden).to(at::kFloat).expand({kBatch, kLength, kHidden})));
  }
}

TEST(ParallelLayersTest, TakeTheArgumentsThatNeuronXAndMegatronHave) {
  const at::Tensor x = drawn("x", {kBatch, kLength, kHidden});
  const auto run = [&](const SliceGroup& tp) -> FoundByName {
    ColumnParallelLinear gathered(kHidden, kWide, tp);
    ColumnParallelLinear sections(kHidden, 60, tp, ColumnParallelOptions{.sections = {20, 40}});
    RowParallelLinear scatters(kHidden, kWide, tp);
    RowParallelLinear skips(kHidden, kWide, tp, RowParallelOptions{.skip_bias_add = true});
    ParallelEmbedding padded(kVocabulary, kHidden, tp, ParallelEmbeddingOptions{.padding_idx = 60});
    fill(*gathered, "gathered", gathered->slices(), tp);
    fill(*sections, "sections", sections->slices(), tp);
    fill(*scatters, "scatters", scatters->slices(), tp);
    fill(*skips, "scatters", skips->slices(), tp);
    const at::Tensor input = x.clone().requires_grad_();
    const at::Tensor y = gathered(input), z = sections(input), scattered = scatters(input),
                     skipped = skips(input);
    EXPECT_EQ(y.size(-1), kWide);
    EXPECT_TRUE(same_bits(scattered, skipped + skips->bias));
    const at::Tensor ids = at::full({1, 2}, 60, at::kLong);
    padded(ids).sum().backward();
    EXPECT_EQ(padded->weight.grad().abs().sum().item<float>(), 0);
    (y.square().sum() + z.square().sum() + scattered.square().sum()).backward();
    return {{"y", {y}}, {"z", {z}}, {"scattered", {scattered}}, {"dx", {input.grad()}}};
  };
  const Whole one = on_slice_ranks({1, 4, false}, run);
  expect_same_bits(one, on_slice_ranks({2, 4, false}, run), "2 ranks");
  expect_same_bits(one, on_slice_ranks({4, 4, false}, run), "4 ranks");
  EXPECT_LT(distance(on_slice_ranks({1, 1, false}, run), one), 2e-6);
}

TEST(ParallelLayersTest, AreDrawnAsWholeModulesOfLibTorchAre) {
  const auto run = [&](const SliceGroup& tp) -> FoundByName {
    const KeyedRandomScope scope(5, 0, "layer", 0);
    ColumnParallelLinear up(kHidden, kWide, tp);
    RowParallelLinear down(kWide, kHidden, tp, RowParallelOptions{.input_is_parallel = true});
    ParallelEmbedding embed(kVocabulary, kHidden, tp);
    return {{"up", {up->weight, 0}},
            {"up.bias", {up->bias, 0}},
            {"down", {down->weight, 1}},
            {"down.bias", {down->bias}},
            {"embed", {embed->weight, 0}}};
  };
  Whole modules;
  {
    const KeyedRandomScope scope(5, 0, "layer", 0);
    const torch::nn::Linear up(kHidden, kWide), down(kWide, kHidden);
    const torch::nn::Embedding embed(kVocabulary, kHidden);
    modules = {{"up", up->weight},
               {"up.bias", up->bias},
               {"down", down->weight},
               {"down.bias", down->bias},
               {"embed", embed->weight}};
  }
  for (const int degree : {1, 2, 4})
    expect_same_bits(modules, on_slice_ranks({degree, 4, false}, run), std::to_string(degree));
}

TEST(ParallelLayersTest, AreInitializedByAFunctionOfTheModuleAsWholeModulesAre) {
  Initialization initialization;
  initialization.module = [](const std::string& /*name*/, torch::nn::Module& module) {
    if (auto* up = module.as<ColumnParallelLinearImpl>()) {
      EXPECT_EQ(up->weight.sizes(), at::IntArrayRef({kWide, kHidden}));
      EXPECT_EQ(up->bias.sizes(), at::IntArrayRef({kWide}));
      torch::nn::init::xavier_uniform_(up->weight);
      torch::nn::init::uniform_(up->bias, -1.0, 1.0);
    }
    if (auto* down = module.as<RowParallelLinearImpl>()) torch::nn::init::normal_(down->weight);
    if (auto* embed = module.as<ParallelEmbeddingImpl>()) torch::nn::init::normal_(embed->weight);
  };
  const auto run = [&](const SliceGroup& tp) -> FoundByName {
    const auto up = std::make_shared<ColumnParallelLinearImpl>(kHidden, kWide, tp);
    const auto down = std::make_shared<RowParallelLinearImpl>(
        kWide, kHidden, tp, RowParallelOptions{.input_is_parallel = true});
    const auto embed = std::make_shared<ParallelEmbeddingImpl>(kVocabulary, kHidden, tp);
    const auto layer_of = [](const char* name, std::shared_ptr<torch::nn::Module> module) {
      LayerSpec layer;
      layer.name = name;
      layer.make = [module] { return module; };
      layer.forward = [](torch::nn::Module& /*net*/, const std::vector<at::Tensor>& in) {
        return in;
      };
      return layer;
    };
    Chunk chunk({layer_of("up", up), layer_of("down", down), layer_of("embed", embed)},
                /*first_layer=*/0, {"hidden"}, {"hidden"});
    initialize_by(initialization, chunk, /*seed=*/5);
    return {{"up", {up->weight, 0}},
            {"up.bias", {up->bias, 0}},
            {"down", {down->weight, 1}},
            {"embed", {embed->weight, 0}}};
  };
  const Whole whole = on_slice_ranks({1, 4, false}, run);
  EXPECT_EQ(whole.at("up").sizes(), at::IntArrayRef({kWide, kHidden}));
  for (const int degree : {2, 4})
    expect_same_bits(whole, on_slice_ranks({degree, 4, false}, run), std::to_string(degree));
}

TEST(ParallelCrossEntropyTest, IsThatOfWholeRows) {
  const at::Tensor logits = drawn("logits", {kBatch, kLength, kVocabulary}, 3.0);
  at::Tensor labels =
      at::arange(kBatch * kLength).mul(53).remainder(kVocabulary).view({kBatch, kLength}).clone();
  labels[0][0] = 7;
  labels[2][1] = -1;
  const auto run = [&](const SliceGroup& tp) -> FoundByName {
    const IndexRange own = tp.range(kVocabulary);
    const at::Tensor here = logits.narrow(-1, own.offset, own.size).clone().requires_grad_();
    const at::Tensor losses = parallel_cross_entropy(here, labels, kVocabulary, tp, -1);
    (losses * at::arange(kLength)).sum().backward();
    return {{"losses", {losses}}, {"d_logits", {here.grad(), 2}}};
  };
  const at::Tensor whole = logits.to(at::kDouble).requires_grad_();
  const at::Tensor losses =
      at::cross_entropy_loss(whole.flatten(0, 1), labels.flatten(), {}, at::Reduction::None, -1)
          .view(labels.sizes());
  (losses * at::arange(kLength)).sum().backward();
  const Whole expected = {{"losses", losses.detach()}, {"d_logits", whole.grad()}};
  const Whole one = on_slice_ranks({1, 4, false}, run);
  EXPECT_LT(distance(expected, one), 1e-6);
  for (const int degree : {2, 4})
    expect_same_bits(one, on_slice_ranks({degree, 4, false}, run), std::to_string(degree));
}

TEST(ParallelLayersTest, RefuseWhatTheyCannotDivide) {
  const SliceGroup tp({}, {.degree = 1, .slices = 4, .sequence = true});
  expect_error(ErrorKind::kUsage, "input_is_parallel",
               [&] { RowParallelLinear(kWide, kHidden, tp); });
  expect_error(ErrorKind::kUsage, "sections", [&] {
    ColumnParallelLinear(kHidden, kWide, tp, ColumnParallelOptions{.sections = {1, 2}});
  });
  RowParallelLinear down(kWide, kHidden, tp, RowParallelOptions{.input_is_parallel = true});
  expect_error(ErrorKind::kUsage, "this rank's slices have 90", [&] {
    down(at::ones({1, 4, kHidden}));
  });
  expect_error(ErrorKind::kUsage, "3 parts are given for 4 slices",
               [&] { reduce_from(std::vector<at::Tensor>(3, at::ones({2})), tp); });
  ParallelEmbedding embed(kVocabulary, kHidden, tp);
  expect_error(ErrorKind::kInput, "id 101 is not in the table, which has 101 rows", [&] {
    embed(at::full({1, 1}, 101, at::kLong));
  });
  expect_error(ErrorKind::kInput, "label 101 is not one of 101 classes", [&] {
    parallel_cross_entropy(at::ones({1, 101}), at::full({1}, 101, at::kLong), 101, tp);
  });
  expect_error(ErrorKind::kUsage, "create_graph", [&] {
    const at::Tensor x = at::ones({1, 4, kHidden}).requires_grad_();
    const at::Tensor y = copy_to(x, tp)[0].sum();
    torch::autograd::grad({y}, {x}, {}, std::nullopt, /*create_graph=*/true);
  });
}

const std::vector<std::string> kProducts = {"aten::mm", "aten::addmm", "aten::bmm"};
const std::vector<std::string> kAdditions = {"aten::add", "aten::add_", "aten::sum"};
const std::vector<std::string> kBuffers = {"aten::empty", "aten::empty_strided", "aten::clone",
                                           "aten::zeros", "aten::empty_like",    "aten::new_empty"};

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PlainIn : torch::autograd::Function<PlainIn> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Group& group) {
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(&group);
    return x.alias();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& group = *reinterpret_cast<const Group*>(context->saved_data["group"].toInt());
    return {group.all_reduce(gradients[0], SumOrder::kTree).wait(), {}};
  }
};
struct PlainOut : torch::autograd::Function<PlainOut> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x, const Group& group) {
    return group.all_reduce(x, SumOrder::kTree).wait();
  }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0], {}};
  }
};

// A feed-forward with one slice per rank must cost what a plain split costs: one product of the
// rank's part, and the same exchanges. group_conformance.h covers the cost of the sums over ranks.
TEST(ParallelLayersTest, WithAsManySlicesAsRanksNothingIsDoneBesideAPlainSplit) {
  for (const int degree : {2, 4}) {
    const at::Tensor x = drawn("x", {kBatch, kLength, kHidden});
    on_slice_ranks({degree, degree, false}, [&](const SliceGroup& tp) -> FoundByName {
      ColumnParallelLinear up(kHidden, kWide, tp, ColumnParallelOptions{.gather_output = false});
      RowParallelLinear down(kWide, kHidden, tp,
                             RowParallelOptions{.bias = false, .input_is_parallel = true});
      const auto layers = operators_of([&] {
        const at::Tensor input = x.clone().requires_grad_();
        down(at::relu(up(input))).backward(at::ones_like(x));
      });
      const auto plain = operators_of([&] {
        const at::Tensor input = x.clone().requires_grad_();
        const at::Tensor wide =
            at::relu(at::linear(PlainIn::apply(input, tp.group()), up->weight, up->bias));
        PlainOut::apply(at::linear(wide, down->weight), tp.group()).backward(at::ones_like(x));
      });
      EXPECT_GT(sum_of(plain, kProducts), 0);
      EXPECT_GT(sum_of(plain, kBuffers), 0);
      EXPECT_EQ(sum_of(layers, kProducts), sum_of(plain, kProducts));
      EXPECT_LE(sum_of(layers, kAdditions), sum_of(plain, kAdditions));
      EXPECT_LE(sum_of(layers, kBuffers), sum_of(plain, kBuffers));
      return {};
    });
  }
}

// In a zero-bubble schedule, I computes the input gradients and W the weight gradients.
TEST(ParallelLayersTest, GradientsOfRowParallelWeightsAreLeftToW) {
  on_slice_ranks({2, 2, true}, [](const SliceGroup& tp) -> FoundByName {
    RowParallelLinear down(kWide, kHidden, tp,
                           RowParallelOptions{.bias = false, .input_is_parallel = true});
    const at::Tensor x = drawn("x", {kBatch, kLength, tp.range(kWide).size}).requires_grad_();
    const at::Tensor y = down(x), dy = drawn("dy", y.sizes());
    const auto edge_of = [](const at::Tensor& of) {
      return torch::autograd::impl::gradient_edge(of);
    };
    InputBackward half = run_input_backward({edge_of(y)}, {dy}, {edge_of(x)}, {});
    EXPECT_TRUE(half.early_weights.empty());
    EXPECT_FALSE(down->weight.grad().defined());
    std::move(half.deferred).run();

    const auto whole = torch::autograd::grad({down(x)}, {x, down->weight}, {dy});
    EXPECT_TRUE(same_bits(half.input_gradients.at(0), whole[0]));
    EXPECT_TRUE(same_bits(down->weight.grad(), whole[1]));
    return {};
  });
}

TEST(DropoutOfRowsTest, OfOneSliceIsThatOfLibTorch) {
  const at::Tensor x = drawn("x", {kBatch, kLength, kHidden});
  const auto in_scope = [&](const auto& run) {
    const KeyedRandomScope scope(5, 0, "layer", 0);
    return run();
  };
  const at::Tensor ours = in_scope([&] { return detail::dropout_rows(x, 0.3, SliceGroup()); });
  const at::Tensor plain = in_scope([&] { return at::dropout(x, 0.3, /*train=*/true); });
  EXPECT_TRUE(same_bits(ours, plain));
}

TEST(DropoutOfRowsTest, EverySliceDrawsByItself) {
  const at::Tensor ones = at::ones({2, 16, 128});
  on_slice_ranks({1, 4, false}, [&](const SliceGroup& tp) -> FoundByName {
    const KeyedRandomScope scope(5, 0, "layer", 0);
    std::vector<at::Tensor> parts;
    for (int draw = 0; draw < 2; ++draw) {
      for (const at::Tensor& rows : detail::dropout_rows(ones, 0.25, tp).chunk(4, 1)) {
        EXPECT_NEAR(rows.eq(0).to(at::kFloat).mean().item<double>(), 0.25, 0.05);
        EXPECT_EQ(rows.max().item<float>(), 1.0F / 0.75F);
        for (const at::Tensor& other : parts) EXPECT_FALSE(at::equal(rows, other));
        parts.push_back(rows);
      }
    }
    const KeyedRandomScope again(5, 0, "layer", 0);
    EXPECT_TRUE(at::equal(detail::dropout_rows(ones, 0.25, tp).chunk(4, 1)[3], parts[3]));
    return {};
  });
}

}  // namespace
}  // namespace parallel_layers_test
}  // namespace sluice::test
