#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <set>

#include "engine/parallelize.h"
#include "layer/initialize_chunks.h"
#include "parallel/slice_ranks.h"
#include "sluice/parts/chunk.h"
#include "sluice/parts/run_options.h"
#include "support/expect_error.h"

namespace sluice::test {
namespace parallelize_module_test {
namespace {

constexpr std::int64_t kBatch = 2, kLength = 8, kHidden = 24, kWide = 52, kVocabulary = 37,
                       kHead = 6;

struct OwnNorm : torch::nn::Module {
  explicit OwnNorm(std::int64_t size) { weight = register_parameter("weight", at::ones({size})); }
  at::Tensor forward(const at::Tensor& x) {
    return weight * (x * at::rsqrt(x.square().mean(-1, true) + 1e-6));
  }
  at::Tensor weight;
};

struct Block : torch::nn::Module {
  Block()
      : norm(std::make_shared<OwnNorm>(kHidden)),
        q(kHidden, kHidden),
        k(kHidden, kHidden),
        v(kHidden, kHidden),
        o(kHidden, kHidden),
        second(torch::nn::LayerNormOptions({kHidden})),
        up(kHidden, kWide),
        down(kWide, kHidden) {
    register_module("norm", norm);
    register_module("q_proj", q), register_module("k_proj", k), register_module("v_proj", v);
    register_module("o_proj", o), register_module("second_norm", second);
    register_module("up", up), register_module("down", down);
  }
  at::Tensor forward(at::Tensor x) {
    const at::Tensor h = norm->forward(x);
    const auto heads = [](const at::Tensor& all) {
      return all.unflatten(-1, {-1, kHead}).transpose(1, 2);
    };
    x = x + o(at::scaled_dot_product_attention(heads(q(h)), heads(k(h)), heads(v(h)), {}, 0.0, true)
                  .transpose(1, 2)
                  .flatten(2));
    return x + down(at::silu(up(second(x))));
  }
  std::shared_ptr<OwnNorm> norm;
  torch::nn::Linear q, k, v, o;
  torch::nn::LayerNorm second;
  torch::nn::Linear up, down;
};

LayerSpec spec(const std::string& name, std::function<std::shared_ptr<torch::nn::Module>()> make,
               std::function<at::Tensor(torch::nn::Module&, const at::Tensor&)> forward) {
  LayerSpec layer;
  layer.name = name;
  layer.make = std::move(make);
  layer.forward = [forward = std::move(forward)](torch::nn::Module& module,
                                                 const std::vector<at::Tensor>& read) {
    return std::vector<at::Tensor>{forward(module, read[0])};
  };
  return layer;
}

std::vector<LayerSpec> two_layer_model() {
  std::vector<LayerSpec> layers;
  layers.push_back(spec(
      "embed", [] { return torch::nn::Embedding(kVocabulary, kHidden).ptr(); },
      [](torch::nn::Module& module, const at::Tensor& ids) {
        return module.as<torch::nn::EmbeddingImpl>()->forward(ids);
      }));
  layers.front().reads = {"ids"};
  for (const char* name : {"layers.0", "layers.1"}) {
    layers.push_back(spec(
        name, [] { return std::make_shared<Block>(); },
        [](torch::nn::Module& module, const at::Tensor& x) {
          return module.as<Block>()->forward(x);
        }));
  }
  layers.push_back(spec(
      "norm", [] { return std::make_shared<OwnNorm>(kHidden); },
      [](torch::nn::Module& module, const at::Tensor& x) {
        return module.as<OwnNorm>()->forward(x);
      }));
  layers.push_back(spec(
      "head", [] { return torch::nn::Linear(kHidden, kVocabulary).ptr(); },
      [](torch::nn::Module& module, const at::Tensor& x) {
        return module.as<torch::nn::LinearImpl>()->forward(x);
      }));
  return layers;
}

const ParallelTable kTable = {
    {"embed", kRowwise},    {"*.q_proj", kColwise}, {"*.k_proj", kColwise},
    {"*.v_proj", kColwise}, {"*.o_proj", kRowwise}, {"*.up", kColwise},
    {"*.down", kRowwise},   {"*norm", kSequence},   {"head", kColwiseGather}};

LocalChunk chunk_of(const SliceGroup& tp) {
  LocalChunk chunk;
  chunk.world_mesh.axes = {
      {"tp", Axis::kTp, tp.degree(), tp.group() ? tp.group().rank() : 0, {}, tp.group()}};
  chunk.tensor_parallel = {
      .degree = tp.degree(), .slices = tp.slices().count, .sequence = tp.sequence_parallel()};
  return chunk;
}

Chunk chunk_of(std::vector<LayerSpec> layers, const SliceGroup& tp, const ParallelTable& table) {
  parallelize(layers, chunk_of(tp), [&](LocalChunk& chunk) { parallelize_module(chunk, table); });
  Chunk chunk(std::move(layers), 0, {}, {"hidden"});
  initialize_parameters(chunk, 3);
  return chunk;
}

at::Tensor ids() {
  return at::arange(kBatch * kLength).mul(11).remainder(kVocabulary).view({kBatch, kLength});
}

FoundByName train_once(const SliceGroup& tp, const ParallelTable& table = kTable,
                       std::vector<LayerSpec> layers = two_layer_model(),
                       const at::Tensor& tokens = ids()) {
  Chunk chunk = chunk_of(std::move(layers), tp, table);
  Values batch;
  batch.set("ids", tokens);
  FoundByName found;
  const at::Tensor logits = chunk.forward({}, batch, 1, 0, 0).get("hidden");
  found["logits"] = {logits};
  at::log_softmax(logits, -1).square().mean().backward();
  for (const ParameterInfo& parameter : chunk.parameters()) {
    const std::int64_t dim = parameter.is_whole() ? -1 : parameter.split->dim;
    found[parameter.name] = {parameter.tensor, dim};
    found["gradient of " + parameter.name] = {parameter.tensor.grad(), dim};
  }
  return found;
}

TEST(ParallelizeModuleTest, PlainModulesHaveTheSameBitsForEveryDegreeAndWithRowsDivided) {
  const Whole one = on_slice_ranks({1, 4, false}, [](const auto& tp) { return train_once(tp); });
  EXPECT_GT(one.size(), 50u);
  for (const int degree : {1, 2, 4}) {
    for (const bool sequence : {false, true}) {
      const SliceLayout layout{degree, 4, sequence};
      expect_same_bits(one, on_slice_ranks(layout, [](const auto& tp) { return train_once(tp); }),
                       name_of(layout));
    }
  }
}

TEST(ParallelizeModuleTest, OneSliceIsThePlainModule) {
  const Whole plain =
      on_slice_ranks({1, 1, true}, [](const auto& tp) { return train_once(tp, {}); });
  expect_same_bits(plain,
                   on_slice_ranks({1, 1, true}, [](const auto& tp) { return train_once(tp); }),
                   "one slice");
}

TEST(ParallelizeModuleTest, SlicesAreAsFarFromThePlainModuleAsRoundingIs) {
  Whole plain = on_slice_ranks({1, 1, true}, [](const auto& tp) { return train_once(tp, {}); });
  // softmax cancels this bias, so its gradient is rounding noise
  for (const char* layer : {"0", "1"})
    plain.erase("gradient of layers." + std::string(layer) + ".k_proj.bias");
  EXPECT_LT(
      distance(plain, on_slice_ranks({2, 4, true}, [](const auto& tp) { return train_once(tp); })),
      4e-6);
}

TEST(ParallelizeModuleTest, ARankHoldsItsSlicesAlone) {
  on_slice_ranks({2, 4, true}, [](const SliceGroup& tp) -> FoundByName {
    const Chunk chunk = chunk_of(two_layer_model(), tp, kTable);
    std::int64_t held = 0, all = 0;
    for (const ParameterInfo& parameter : chunk.parameters()) {
      held += parameter.tensor.numel();
      all += c10::multiply_integers(parameter.global_shape);
    }
    EXPECT_LT(held, all * 6 / 10);
    return {};
  });
}

std::string refusal(std::vector<LayerSpec> layers, const ParallelTable& table, bool runs = false) {
  const SliceGroup tp({}, {.degree = 1, .slices = 4, .sequence = true});
  return message_of([&] {
    Chunk chunk = chunk_of(std::move(layers), tp, table);
    if (!runs) return;
    Values batch;
    batch.set("ids", ids());
    chunk.forward({}, batch, 1, 0, 0);
  });
}

TEST(ParallelizeModuleTest, RefusesWhatItWouldGetWrong) {
  const auto expect = [](const std::string& part, const std::string& message) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect("no module is called '*.gate'", refusal(two_layer_model(), {{"*.gate", kColwise}}));
  expect("'norm' is neither a torch::nn::Linear", refusal(two_layer_model(), {{"norm", kColwise}}));
  expect("give it the style kRowwise", refusal(two_layer_model(), {{"embed", kColwise}}));

  std::vector<LayerSpec> reads_otherwise = two_layer_model();
  reads_otherwise.back().forward = [](torch::nn::Module& module,
                                      const std::vector<at::Tensor>& read) {
    return std::vector<at::Tensor>{
        at::matmul(read[0], module.as<torch::nn::LinearImpl>()->weight.t())};
  };
  expect("the forward has not read the divided 'head.", refusal(reads_otherwise, kTable, true));

  const auto behind_products = [](auto drop) {
    std::vector<LayerSpec> layers = two_layer_model();
    layers[1].forward = [drop](torch::nn::Module& module, const std::vector<at::Tensor>& read) {
      auto& block = *module.as<Block>();
      return std::vector<at::Tensor>{block.down(drop(block.up(read[0])))};
    };
    return layers;
  };
  expect(
      "aten::alpha_dropout in a layer with divided weights",
      refusal(behind_products([](const at::Tensor& x) { return at::alpha_dropout(x, 0.5, true); }),
              kTable, true));
  expect(
      "a dropout of [16, 52] cannot be assigned to this rank's 4 slices: the product by columns "
      "before it gave [2, 8, 52]",
      refusal(behind_products([](const at::Tensor& x) {
                return at::dropout(x.flatten(0, 1), 0.5, true).view(x.sizes());
              }),
              kTable, true));
  std::vector<LayerSpec> flat = two_layer_model();
  flat.back().forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& read) {
    return std::vector<at::Tensor>{module.as<torch::nn::LinearImpl>()->forward(
        at::dropout(read[0].flatten(0, 1), 0.5, true).view(read[0].sizes()))};
  };
  expect("dimension 1 of [16, 24] has columns, not rows", refusal(flat, kTable, true));
}

// ---- pointwise operators ----

// Computes between the two column-parallel products and the row-parallel product.
using Between = std::function<at::Tensor(const at::Tensor& up, const at::Tensor& gate)>;

struct FeedForward : torch::nn::Module {
  explicit FeedForward(Between function)
      : up(kHidden, kWide),
        gate(kHidden, kWide),
        down(kWide, kHidden),
        between(std::move(function)) {
    register_module("up", up), register_module("gate", gate), register_module("down", down);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor wide = up(4 * x);  // scaled, because activations are nearly linear around 0
    return x + down(between(wide, gate(4 * x)));
  }
  torch::nn::Linear up, gate, down;
  Between between;
};

std::vector<LayerSpec> feed_forward_model(const Between& between) {
  std::vector<LayerSpec> layers = two_layer_model();
  layers.erase(layers.begin() + 2, layers.begin() + 4);
  layers[1] = spec(
      "layers.0", [between] { return std::make_shared<FeedForward>(between); },
      [](torch::nn::Module& module, const at::Tensor& x) {
        return module.as<FeedForward>()->forward(x);
      });
  return layers;
}

at::Tensor heads_of(const at::Tensor& columns) { return columns.unflatten(-1, {-1, 13}); }

// Pointwise operators by name. In-place operators work on a copy, because the gradients of products
// need the products' results.
const std::vector<std::pair<std::string, Between>> kBetween = {
    {"elu", [](const auto& x, const auto& y) { return at::elu(x) + y; }},
    {"elu with numbers",
     [](const auto& x, const auto& y) { return at::elu(x, 0.7, 1.1, 1.3) + y; }},
    {"selu", [](const auto& x, const auto& y) { return at::selu(x) + y; }},
    {"celu", [](const auto& x, const auto& y) { return at::celu(x, 1.2) + y; }},
    {"softplus", [](const auto& x, const auto& y) { return at::softplus(x, 1.5) + y; }},
    {"mish", [](const auto& x, const auto& y) { return at::mish(x) + y; }},
    {"silu", [](const auto& x, const auto& y) { return at::silu(x) + y; }},
    {"gelu", [](const auto& x, const auto& y) { return at::gelu(x) + y; }},
    {"gelu by tanh", [](const auto& x, const auto& y) { return at::gelu(x, "tanh") + y; }},
    {"sigmoid by hand",
     [](const auto& x, const auto& y) { return x / (1 + at::exp(-1.702 * x)) + y; }},
    {"pow", [](const auto& x, const auto& y) { return at::pow(x.abs() + 0.1, 1.5) + y; }},
    {"pow of a number", [](const auto& x, const auto& y) { return at::pow(1.7, x) + y; }},
    {"pow of two", [](const auto& x, const auto& y) { return at::pow(x.abs() + 0.1, y); }},
    {"logaddexp", [](const auto& x, const auto& y) { return at::logaddexp(x, y); }},
    {"gated", [](const auto& x, const auto& y) { return at::mish(x) * y; }},
    {"lerp", [](const auto& x, const auto& y) { return at::lerp(x, y, at::sigmoid(x)); }},
    {"where",
     [](const auto& x, const auto& y) { return at::where(x > y, at::elu(x), at::mish(y)); }},
    {"addcmul", [](const auto& x, const auto& y) { return at::addcmul(x, at::mish(x), y, 0.3); }},
    {"in place",
     [](const auto& x, const auto& y) {
       at::Tensor left = x * 1, right = y * 1;
       at::elu_(left), at::celu_(right);
       return left + right;
     }},
    {"in place by two", [](const auto& x, const auto& y) { return at::mish(x).mul_(y).pow_(2); }},
    {"heads behind rows",
     [](const auto& x, const auto& y) {
       return (at::elu(heads_of(x)) * at::mish(heads_of(y))).flatten(2);
     }},
    {"heads before rows",
     [](const auto& x, const auto& y) {
       const at::Tensor z = at::elu(heads_of(x).transpose(1, 2)) + heads_of(y).transpose(1, 2);
       return at::mish(z).transpose(1, 2).flatten(2);
     }},
    {"rows and batch in one",
     [](const auto& x, const auto& y) { return at::mish(x.flatten(0, 1)).view(x.sizes()) + y; }},
};

// With 12 rows of 13 columns per slice, a rank's data never ends at a vector boundary.
TEST(ParallelizeModuleTest, PointwiseOperatorsHaveTheSameBitsForEveryDegree) {
  const at::Tensor tokens = at::arange(12).mul(11).remainder(kVocabulary).view({1, 12});
  const ParallelTable table = {{"embed", kRowwise},
                               {"*.up", kColwise},
                               {"*.gate", kColwise},
                               {"*.down", kRowwise},
                               {"head", kColwiseGather}};
  for (const auto& [name, between] : kBetween) {
    const auto train = [&, &function = between](const SliceGroup& tp) {
      return train_once(tp, table, feed_forward_model(function), tokens);
    };
    const Whole one = on_slice_ranks({1, 4, false}, train);
    EXPECT_GT(one.size(), 10u);
    for (const int degree : {1, 2, 4}) {
      for (const bool sequence : {false, true}) {
        const SliceLayout layout{degree, 4, sequence};
        expect_same_bits(one, on_slice_ranks(layout, train), name + ", " + name_of(layout));
      }
    }
  }
}

TEST(ParallelizeModuleTest, PointwiseOperatorsComputeWhatThePlainModuleComputes) {
  for (const auto& [name, between] : kBetween) {
    const Whole plain = on_slice_ranks({1, 1, false}, [&, &function = between](const auto& tp) {
      return train_once(tp, {}, feed_forward_model(function));
    });
    const Whole sliced = on_slice_ranks({2, 4, true}, [&, &function = between](const auto& tp) {
      return train_once(tp,
                        {{"embed", kRowwise},
                         {"*.up", kColwise},
                         {"*.gate", kColwise},
                         {"*.down", kRowwise},
                         {"head", kColwiseGather}},
                        feed_forward_model(function));
    });
    EXPECT_LT(distance(plain, sliced), 1e-4) << name;
  }
}

// ---- dropout ----

struct DroppingBlock : Block {
  DroppingBlock() {
    register_module("drop", drop), register_module("drop_in_place", drop_in_place);
  }
  at::Tensor forward(at::Tensor x) {
    const auto heads = [](const at::Tensor& all) { return all.unflatten(-1, {-1, kHead}); };
    at::Tensor h = drop(norm->forward(x));
    const at::Tensor queries = q(h), keys = k(h), values = drop(v(h));
    const at::Tensor at_once = at::scaled_dot_product_attention(
        drop(heads(queries)).transpose(1, 2), heads(keys).transpose(1, 2),
        heads(values).transpose(1, 2), {}, is_training() ? 0.2 : 0.0, true);
    const at::Tensor scores =
        at::matmul(heads(queries).transpose(1, 2), heads(keys).permute({0, 2, 3, 1}));
    const at::Tensor by_hand =
        at::matmul(drop(at::softmax(scores, -1)), heads(values).transpose(1, 2));
    x = x + drop_in_place(o((at_once + by_hand).transpose(1, 2).flatten(2)));
    return x + drop(down(drop_in_place(at::silu(up(second(x))))));
  }
  torch::nn::Dropout drop{0.25}, drop_in_place{torch::nn::DropoutOptions(0.5).inplace(true)};
};

std::vector<LayerSpec> dropping_model() {
  std::vector<LayerSpec> layers = two_layer_model();
  for (const std::size_t i : {1, 2}) {
    layers[i].make = [] { return std::make_shared<DroppingBlock>(); };
    layers[i].forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& read) {
      return std::vector<at::Tensor>{module.as<DroppingBlock>()->forward(read[0])};
    };
  }
  LayerSpec drop;
  drop.name = "drop";
  drop.forward = [](torch::nn::Module&, const std::vector<at::Tensor>& read) {
    return std::vector<at::Tensor>{at::dropout(read[0], 0.1, /*train=*/true)};
  };
  layers.insert(layers.begin() + 1, drop);
  return layers;
}

TEST(ParallelizeModuleTest, DropoutHasTheSameBitsForEveryDegreeAndWithRowsDivided) {
  const auto train = [](const SliceGroup& tp) { return train_once(tp, kTable, dropping_model()); };
  const Whole one = on_slice_ranks({1, 4, false}, train);
  EXPECT_GT(one.size(), 50u);
  for (const int degree : {1, 2, 4}) {
    for (const bool sequence : {false, true}) {
      const SliceLayout layout{degree, 4, sequence};
      expect_same_bits(one, on_slice_ranks(layout, train), name_of(layout));
    }
  }
}

TEST(ParallelizeModuleTest, DropoutDropsAsManyNumbersInEverySlice) {
  static constexpr std::int64_t kRows = 32, kColumns = 64;
  std::vector<LayerSpec> layers = {spec(
      "up", [] { return torch::nn::Linear(kColumns, kColumns).ptr(); },
      [](torch::nn::Module& module, const at::Tensor& x) {
        const at::Tensor rows = at::dropout(at::ones_like(x), 0.25, true);
        const at::Tensor columns = module.as<torch::nn::LinearImpl>()->forward(x);
        at::Tensor twice = at::ones_like(columns);
        at::dropout_(twice, 0.25, true);
        return at::stack({rows, at::dropout(at::ones_like(columns), 0.25, true), twice});
      })};
  layers.front().reads = {"x"};
  const SliceGroup tp({}, {.degree = 1, .slices = 4, .sequence = true});
  Chunk chunk = chunk_of(std::move(layers), tp, {{"up", kColwise}});
  Values batch;
  batch.set("x", at::ones({2, kRows, kColumns}));
  const at::Tensor dropped = chunk.forward({}, batch, 1, 0, 0).get("hidden");
  EXPECT_EQ(dropped.max().item<float>(), 1.0F / 0.75F);
  std::vector<at::Tensor> parts = dropped[0].chunk(4, 1);
  for (const int draw : {1, 2})
    for (const at::Tensor& part : dropped[draw].chunk(4, -1)) parts.push_back(part);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_NEAR(parts[i].eq(0).to(at::kFloat).mean().item<double>(), 0.25, 0.05);
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(parts[i].sizes() == parts[j].sizes() && at::equal(parts[i], parts[j]));
  }
}

// The gradients of q, k and v are summed within a slice and exchanged once.
TEST(ParallelizeModuleTest, AnInputThatSeveralProductsReadIsExchangedOnce) {
  on_slice_ranks({2, 2, true}, [](const SliceGroup& tp) -> FoundByName {
    Chunk chunk = chunk_of(two_layer_model(), tp, kTable);
    Values batch;
    batch.set("ids", ids());
    const at::Tensor logits = chunk.forward({}, batch, 1, 0, 0).get("hidden");
    // Counts the graph nodes that gather rows: two per block, one for the head.
    std::set<torch::autograd::Node*> seen;
    std::vector<torch::autograd::Node*> open = {logits.grad_fn().get()};
    int fans = 0;
    while (!open.empty()) {
      torch::autograd::Node* const node = open.back();
      open.pop_back();
      if (!node || !seen.insert(node).second) continue;
      fans += node->name().find("Fan") != std::string::npos;
      for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
    }
    EXPECT_EQ(fans, 2 * 2 + 1);
    return {};
  });
}

}  // namespace
}  // namespace parallelize_module_test
}  // namespace sluice::test
