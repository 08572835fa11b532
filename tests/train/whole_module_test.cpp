#include "sluice/parts/whole_module.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adamw.h>

#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "engine/rank_threads.h"
#include "sluice/layer.h"
#include "sluice/model.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"
#include "support/expect_error.h"
#include "support/sanitized.h"

namespace sluice::test::whole_module_test {
namespace {

constexpr std::int64_t kWidth = 8, kVocabulary = 16, kLayers = 6;

std::mutex made_mutex;
std::multiset<std::int64_t> made_blocks;

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t index, double dropout)
      : norm(torch::nn::LayerNormOptions({kWidth})), linear(kWidth, kWidth), drop(dropout) {
    register_module("norm", norm);
    register_module("linear", linear);
    register_module("drop", drop);
    const std::lock_guard lock(made_mutex);
    made_blocks.insert(index);
  }
  at::Tensor forward(const at::Tensor& x) { return x + drop(at::tanh(linear(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear linear;
  torch::nn::Dropout drop;
};
TORCH_MODULE(Block);

struct DecoderImpl : torch::nn::Module {
  using Keep = std::function<bool(const std::string&)>;
  explicit DecoderImpl(
      double dropout = 0.0, const Keep& keep = [](const auto&) { return true; }) {
    if (keep("lm_head"))
      lm_head = register_module(
          "lm_head", torch::nn::Linear(torch::nn::LinearOptions(kWidth, kVocabulary).bias(false)));
    if (keep("embed_tokens"))
      embed_tokens = register_module("embed_tokens", torch::nn::Embedding(kVocabulary, kWidth));
    register_module("layers", layers);
    for (std::int64_t i = 0; i < kLayers; ++i) {
      if (keep("layers." + std::to_string(i))) {
        layers->push_back(Block(i, dropout));
      } else {
        layers->push_back(std::make_shared<torch::nn::Module>());
      }
    }
    if (keep("norm"))
      norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    scale = register_buffer("scale", at::full({1}, 2.0));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = input;
    if (embed_tokens) x = embed_tokens(x) * scale;
    for (const auto& module : *layers) {
      if (auto* block = module->as<BlockImpl>()) x = block->forward(x);
    }
    if (norm) x = norm(x);
    return lm_head ? lm_head(x) : x;
  }
  at::Tensor scale;
  torch::nn::Embedding embed_tokens{nullptr};
  torch::nn::ModuleList layers;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear lm_head{nullptr};
};
TORCH_MODULE(Decoder);

at::Tensor run_decoder(DecoderImpl& net, const at::Tensor& x) { return net.forward(x); }

std::shared_ptr<DecoderImpl> leaving_out(const Kept& kept) {
  return std::make_shared<DecoderImpl>(0.0, kept);
}
Decoder dropping(const Kept& kept) {
  Decoder net;
  drop_unkept(*net, kept, net->embed_tokens, net->layers, net->norm, net->lm_head);
  return net;
}

std::vector<Part> parts() {
  return {{"embed_tokens", {"ids"}}, {.name = "layers", .length = kLayers}, {"norm"}, {"lm_head"}};
}

void finish(Model& model) {
  model.inputs = {"ids", "labels"};
  model.loss = mean_loss([](const Values& out, const Values& in) {
    return torch::nn::functional::cross_entropy(out["hidden"].flatten(0, 1),
                                                in["labels"].flatten());
  });
  model.initialization.tensor = [](const std::string& name, at::Tensor& value) {
    if (name == "scale") return;
    if (value.dim() > 1) {
      torch::nn::init::xavier_uniform_(value);
    } else {
      value.fill_(name.ends_with("bias") ? 0.0 : 1.0);
    }
  };
}

template <typename Source>
Model decoder(Source source, const ModuleTree& tree) {
  Model model = from_module(source, run_decoder, tree);
  finish(model);
  return model;
}

struct Trained {
  std::vector<double> losses, norms;
  std::map<std::string, at::Tensor> state;
};

Inputs batch_of(int step) {
  const at::Tensor ids = at::arange(8 * 5).mul(7 + step).remainder(kVocabulary).view({8, 5});
  return {{"ids", ids}, {"labels", (ids + 3).remainder(kVocabulary)}};
}

Trained train(const Model& model, const PipelineOptions& options, RunOptions run_options = {}) {
  run_options.seed = 3;
  Trained trained;
  std::mutex mutex;
  run(
      model, options,
      [&](Pipeline& pipeline) {
        torch::optim::AdamW optimizer(pipeline.parameters(), torch::optim::AdamWOptions(1e-2));
        for (int step = 0; step < 3; ++step) {
          const double loss = pipeline.train_step(batch_of(step)).loss;
          const double norm = pipeline.clip_grad_norm(0.5);
          optimizer.step();
          optimizer.zero_grad();
          if (!pipeline.has_last_stage()) continue;
          trained.losses.push_back(loss);
          trained.norms.push_back(norm);
        }
        const std::lock_guard lock(mutex);
        for (const auto& [name, tensor] : pipeline.local_state_dict())
          trained.state[name] = tensor.clone();
      },
      run_options);
  return trained;
}

void expect_same_bits(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  ASSERT_EQ(a.state.size(), b.state.size());
  for (const auto& [name, tensor] : a.state) {
    ASSERT_TRUE(b.state.contains(name)) << name;
    EXPECT_TRUE(at::equal(tensor, b.state.at(name))) << name;
  }
}

PipelineOptions layout(const char* schedule, int ranks) {
  PipelineOptions options;
  options.num_ranks = ranks;
  options.schedule = schedule;
  options.num_microbatches = 4;
  return options;
}

TEST(WholeModuleTest, HasTheSameBitsHoweverItIsCut) {
  const Model model = decoder(leaving_out, {.parts = parts()});
  const Trained one = train(model, layout("1F1B", 1));
  EXPECT_LT(one.losses.back(), one.losses.front());
  EXPECT_EQ(one.state.size(), 1u + kLayers * 4 + 2 + 1 + 1);
  EXPECT_TRUE(one.state.contains("layers.5.linear.weight"));
  std::vector<PipelineOptions> layouts;
  layouts.push_back(layout("GPipe", 4));
  layouts.push_back(layout("1F1B", 3));
  layouts.back().partition.cuts = {"layers.0", "layers.4"};
  layouts.push_back(layout("Interleaved1F1B", 2));
  layouts.back().partition.modules = {{"embed_tokens", "layers.0", "layers.1", "layers.2"},
                                      {"layers.3"},
                                      {"layers.4"},
                                      {"layers.5", "norm", "lm_head"}};
  layouts.push_back(layout("ZBVZeroBubble", 2));
  layouts.back().partition.split_points = {"layers.1", "layers.3", "norm"};
  for (const Convention convention :
       {Convention::kNeuronx, Convention::kTorchtitan, Convention::kAutomodel}) {
    layouts.push_back(layout("DualPipeV", 2));
    layouts.back().partition.convention = convention;
  }
  for (const PipelineOptions& options : layouts) {
    SCOPED_TRACE(options.partition.convention.text() + " " + options.schedule.name->text());
    expect_same_bits(one, train(model, options));
  }
}

TEST(WholeModuleTest, IsFoundByClassAndMayBeMadeWholeAndDropped) {
  const Trained one = train(decoder(leaving_out, {.parts = parts()}), layout("1F1B", 1));
  const Model model =
      decoder(dropping, {.parts = {{"embed_tokens", {"ids"}}, {"layers"}, {"norm"}, {"lm_head"}},
                         .block_class = class_name<BlockImpl>()});
  ASSERT_EQ(model.layers.size(), std::size_t{kLayers + 3});
  EXPECT_EQ(model.layers[1].name, "layers.0");
  for (const char* convention : {"neuronx", "torchtitan-current", "sluice"}) {
    PipelineOptions options = layout("1F1B", 4);
    options.partition.convention = convention;
    expect_same_bits(one, train(model, options));
  }
}

struct PairImpl : torch::nn::Module {
  PairImpl() : first(kWidth, kWidth), second(kWidth, 1) {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(at::Tensor x) {
    if (first) x = at::tanh(first(x));
    return second ? second(x) : x;
  }
  torch::nn::Linear first, second;
};
TORCH_MODULE(Pair);

TEST(WholeModuleTest, TheOutputOfFoundPartsHasTheNameThatIsGiven) {
  const auto make = [](const Kept& kept) {
    Pair net;
    drop_unkept(*net, kept, net->first, net->second);
    return net;
  };
  const auto forward = [](PairImpl& net, const at::Tensor& x) { return net.forward(x); };
  const auto loss_of = [&](const std::string& output, int ranks) {
    Model model = from_module(make, forward, {.output = output});
    EXPECT_EQ(model.outputs, (std::vector<std::string>{output}));
    EXPECT_EQ(model.layers[0].writes, (std::vector<std::string>{"hidden"}));
    model.loss =
        mean_loss([&](const Values& out, const Values&) { return out[output].square().mean(); });
    return run(model, layout("1F1B", ranks),
               [](Pipeline& pipeline) {
                 pipeline.parameters();
                 return pipeline.train_step({{"x", at::ones({8, kWidth})}}).loss;
               })
        .front();
  };
  const double loss = loss_of("hidden", 1);
  for (const int ranks : {1, 2}) EXPECT_EQ(loss_of("answer", ranks), loss);
}

TEST(WholeModuleTest, ListsParametersInTheOrderOfItsParts) {
  run(decoder(leaving_out, {.parts = parts()}), layout("1F1B", 1), [](Pipeline& pipeline) {
    const auto parameters = pipeline.named_parameters();
    EXPECT_EQ(parameters.front().name, "embed_tokens.weight");
    EXPECT_EQ(parameters[1].name, "layers.0.norm.weight");
    EXPECT_EQ(parameters.back().name, "lm_head.weight");
    EXPECT_TRUE(pipeline.parameters().back().is_same(parameters.back().tensor));
  });
}

TEST(WholeModuleTest, MakesNothingOfAnotherRank) {
  const Model model = decoder(leaving_out, {.parts = parts()});
  made_blocks.clear();
  run(model, layout("ZBVZeroBubble", 2), [&](Pipeline& pipeline) {
    ASSERT_EQ(pipeline.modules().size(), 2u);  // one per stage
    std::size_t blocks = 0;
    for (const auto& module : pipeline.modules()) {
      ASSERT_NE(module->as<DecoderImpl>(), nullptr);
      for (const auto& child : module->modules()) blocks += child->as<BlockImpl>() ? 1 : 0;
    }
    EXPECT_EQ(blocks, std::size_t{kLayers} / 2);
    EXPECT_TRUE(pipeline.modules().front()->as<DecoderImpl>()->lm_head.is_empty());
  });
  EXPECT_EQ(made_blocks, (std::multiset<std::int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(WholeModuleTest, KeysDropoutByPartWhereEveryPartIsAModuleOfItsOwn) {
  Model model =
      from_module([](const Kept& kept) { return std::make_shared<DecoderImpl>(0.3, kept); },
                  run_decoder, {.parts = parts()});
  finish(model);
  model.fuse = nullptr;
  expect_same_bits(train(model, layout("1F1B", 1)), train(model, layout("Interleaved1F1B", 2)));
}

TEST(WholeModuleTest, TiesParametersOfPartsInEveryLayout) {
  const Model model =
      decoder(leaving_out, {.parts = parts(), .ties = {{"lm_head.weight", "embed_tokens.weight"}}});
  const Trained one = train(model, layout("1F1B", 1));
  EXPECT_FALSE(one.state.contains("lm_head.weight"));
  expect_same_bits(one, train(model, layout("1F1B", 4)));
  expect_same_bits(one, train(model, layout("ZBVZeroBubble", 2)));
}

// Also freezes the embedding and the head.
std::function<std::shared_ptr<DecoderImpl>(const Kept&)> freezing(const std::string& also = "") {
  return [also](const Kept& kept) {
    std::shared_ptr<DecoderImpl> net = leaving_out(kept);
    for (const auto& item : net->named_parameters()) {
      const std::string& name = item.key();
      const bool is_end = name.starts_with("embed_tokens.") || name.starts_with("lm_head.");
      if (is_end || (!also.empty() && name.starts_with(also)))
        item.value().set_requires_grad(false);
    }
    return net;
  };
}

Model drawn_by_module(bool tied, bool frozen) {
  ModuleTree tree{.parts = parts()};
  if (tied) tree.ties = {{"lm_head.weight", "embed_tokens.weight"}};
  Model model = frozen ? decoder(freezing(), tree) : decoder(leaving_out, tree);
  model.initialization.tensor = nullptr;
  model.initialization.module = [](const std::string& /*name*/, torch::nn::Module& module) {
    if (auto* linear = module.as<torch::nn::LinearImpl>())
      torch::nn::init::kaiming_uniform_(linear->weight);
    if (auto* embedding = module.as<torch::nn::EmbeddingImpl>())
      torch::nn::init::normal_(embedding->weight);
  };
  return model;
}

TEST(WholeModuleTest, DrawsByModuleWithTheSameBitsInEveryLayout) {
  const auto drawn = [](const char* schedule, int ranks, bool tied, bool frozen) {
    Model model = drawn_by_module(tied, frozen);
    std::mutex mutex;
    std::multiset<std::string> asked;
    model.initialization.module = [&, draw = model.initialization.module](
                                      const std::string& name, torch::nn::Module& module) {
      {
        const std::lock_guard lock(mutex);
        asked.insert(name);
      }
      draw(name, module);
    };
    std::map<std::string, at::Tensor> state;
    run(model, layout(schedule, ranks), [&](Pipeline& pipeline) {
      const std::lock_guard lock(mutex);
      for (const auto& [name, tensor] : pipeline.local_state_dict()) {
        const auto [other, added] = state.emplace(name, tensor.clone());
        EXPECT_TRUE(added || at::equal(tensor, other->second)) << name << schedule;
      }
    });
    EXPECT_EQ(asked.count("layers.3.linear"), 1u);
    EXPECT_EQ(asked.count("layers.3"), 0u);
    return state;
  };
  for (const bool tied : {false, true}) {
    for (const bool frozen : {false, true}) {
      const auto one = drawn("1F1B", 1, tied, frozen);
      for (const auto& [schedule, ranks] : {std::pair("1F1B", 4), std::pair("ZBVZeroBubble", 2)}) {
        const auto found = drawn(schedule, ranks, tied, frozen);
        ASSERT_EQ(one.size(), found.size());
        for (const auto& [name, tensor] : one)
          EXPECT_TRUE(at::equal(tensor, found.at(name))) << name << schedule << tied << frozen;
      }
    }
  }
}

TEST(WholeModuleTest, BeginsAlikeWhereATrainerDrawsByModule) {
  for (const bool frozen : {false, true}) {
    const Model model = drawn_by_module(/*tied=*/true, frozen);
    PipelineOptions options = layout("1F1B", 2);
    options.step_end = StepEnd::kUpdate;
    const Plan plan = plan_pipeline(describe(model.layers), options);
    std::vector<at::Tensor> uses;
    std::mutex mutex;
    run_ranks(make_local_transports(2), 1, nullptr, [&](Transport& transport) {
      const Pipeline pipeline(model, plan, transport);
      const std::lock_guard lock(mutex);
      for (const ParameterInfo& info : pipeline.named_parameters())
        if (info.name == "embed_tokens.weight" || !info.tied_to.empty())
          uses.push_back(info.tensor.detach());
    });
    ASSERT_EQ(uses.size(), 2u);
    EXPECT_TRUE(at::equal(uses[0], uses[1])) << frozen;
  }
}

struct ScaledImpl : torch::nn::Module {
  explicit ScaledImpl(const Kept& kept) {
    if (kept("before")) before = register_parameter("before", at::ones({kWidth}));
    if (kept("linear")) linear = register_module("linear", torch::nn::Linear(kWidth, kWidth));
    if (kept("after")) after = register_parameter("after", at::ones({kWidth}));
  }
  at::Tensor forward(at::Tensor x) {
    if (before.defined()) x = x * before;
    if (linear) x = linear(x);
    return after.defined() ? x * after : x;
  }
  at::Tensor before, after;
  torch::nn::Linear linear{nullptr};
};

TEST(WholeModuleTest, AModuleWhoseOwnParametersAreOnTwoStagesIsNotDrawnByModule) {
  Model model = from_module([](const Kept& kept) { return std::make_shared<ScaledImpl>(kept); },
                            [](ScaledImpl& net, const at::Tensor& x) { return net.forward(x); },
                            {.parts = {{"before", {"x"}}, {"linear"}, {"after"}}});
  model.loss = mean_loss([](const Values& out, const Values&) { return out["hidden"].mean(); });
  model.initialization.module = [](const std::string&, torch::nn::Module& module) {
    for (at::Tensor& parameter : module.parameters(/*recurse=*/false))
      torch::nn::init::normal_(parameter);
  };
  run(model, layout("1F1B", 1), [](Pipeline& /*pipeline*/) {});
  PipelineOptions apart = layout("1F1B", 1);
  apart.activation_checkpoint = {ActivationCheckpoint::kLayers, {"linear"}};
  const std::string in_pieces =
      message_of([&] { run(model, apart, [](Pipeline& /*pipeline*/) {}); });
  EXPECT_NE(in_pieces.find("are in parts that run separately"), std::string::npos) << in_pieces;
  const std::string refused =
      message_of([&] { run(model, layout("1F1B", 2), [](Pipeline& /*pipeline*/) {}); });
  EXPECT_NE(refused.find("'before' and 'after' belong to one module, but are on stages 0 and 1"),
            std::string::npos)
      << refused;
  EXPECT_NE(refused.find("set Initialization::tensor"), std::string::npos) << refused;
}

// `initialize` does nothing here, so the factory's values remain.
TEST(WholeModuleTest, InitializeKeepsFactoryValuesItDoesNotSet) {
  Model model = decoder(dropping, {.input = "ids", .block_class = "Block"});
  model.initialization = {};
  for (LayerSpec& layer : model.layers)
    layer.initialize = [](const std::string&, const std::string&, at::Tensor&, std::uint64_t) {};
  std::map<std::string, at::Tensor> whole;
  {
    const KeyedRandomScope scope(0, 0, class_name<DecoderImpl>(), 0);
    for (const auto& item : Decoder()->named_parameters())
      whole[item.key()] = item.value().detach();
  }
  for (const bool is_fused : {true, false}) {
    if (!is_fused) model.fuse = nullptr;
    run(model, layout("1F1B", 3), [&](Pipeline& pipeline) {
      for (const ParameterInfo& info : pipeline.named_parameters())
        EXPECT_TRUE(at::equal(info.tensor, whole.at(info.name))) << info.name;
    });
  }
}

TEST(WholeModuleTest, RunsBlocksTwiceWithTheSameBitsWhateverIsFrozen) {
  for (const char* also : {"", "layers.3.", "layers.0.norm."}) {
    std::atomic<int> calls = 0;
    Model model = from_module(freezing(also),
                              [&calls](DecoderImpl& net, const at::Tensor& x) {
                                ++calls;
                                return net.forward(x);
                              },
                              {.parts = parts()});
    finish(model);
    const Trained one = train(model, layout("1F1B", 1));
    EXPECT_EQ(calls, 3 * 4);
    const std::vector<std::tuple<const char*, int, int>> layouts = {
        {"1F1B", 1, 1},
        {"1F1B", 2, 2},
        {"GPipe", 2, 2},
        {"Interleaved1F1B", 2, 4},
        {"ZBVZeroBubble", 2, 4},
        {"DualPipeV", 2, 4},
        {"InterleavedZeroBubble", 2, 4}};
    for (const auto& [schedule, ranks, stages] : layouts) {
      PipelineOptions options = layout(schedule, ranks);
      if (stages == 2) options.partition.split_points = {"layers.3"};
      if (stages == 4) options.partition.split_points = {"layers.1", "layers.3", "layers.5"};
      options.activation_checkpoint = ActivationCheckpoint::kFull;
      SCOPED_TRACE(std::string(schedule) + " " + also);
      calls = 0;
      expect_same_bits(one, train(model, options));
      // The embedding, the blocks, norm and head as one, then the blocks again.
      EXPECT_EQ(calls, 3 * 4 * (1 + 2 * kLayers + 1));
    }
  }
}

struct Piece {
  std::string name;
  bool twice = false;
  bool operator==(const Piece&) const = default;
};

TEST(WholeModuleTest, PartsRunTwiceEachByItselfAndOthersTogether) {
  const Model model = decoder(leaving_out, {.parts = parts()});
  PipelineOptions options = layout("1F1B", 2);
  options.partition.split_points = {"layers.4"};
  const Trained once = train(model, options);
  const auto pieces_of = [&](const ActivationCheckpoint& named) {
    options.activation_checkpoint = named;
    expect_same_bits(once, train(model, options));
    std::vector<std::vector<Piece>> of_stage(2);
    run(model, options, [&](Pipeline& pipeline) {
      const Chunk& chunk = pipeline.stages().front()->chunk();
      for (const LayerSpec& layer : chunk.layers())
        of_stage[pipeline.rank()].push_back({layer.name, layer.recompute});
      EXPECT_EQ(pipeline.modules().size(), chunk.layers().size());
    });
    return of_stage;
  };
  using Pieces = std::vector<std::vector<Piece>>;
  EXPECT_EQ(pieces_of({ActivationCheckpoint::kLayers, {"layers.1", "layers.2", "lm_head"}}),
            (Pieces{{{"embed_tokens"}, {"layers.1", true}, {"layers.2", true}, {"layers.3"}},
                    {{"layers.4"}, {"lm_head", true}}}));
  EXPECT_EQ(pieces_of({ActivationCheckpoint::kLayers, {"embed_tokens"}}),
            (Pieces{{{"embed_tokens", true}, {"layers.0"}}, {{"layers.4"}}}));
}

// The numbers equal those of a stage that runs as one call.
TEST(WholeModuleTest, RecomputedBlocksDrawTheSameDropout) {
  Model model =
      from_module([](const Kept& kept) { return std::make_shared<DecoderImpl>(0.3, kept); },
                  run_decoder, {.parts = parts()});
  finish(model);
  for (const char* schedule : {"1F1B", "Interleaved1F1B", "ZBVZeroBubble"}) {
    PipelineOptions options = layout(schedule, 2);
    const Trained once = train(model, options);
    for (const ActivationCheckpoint& named :
         {ActivationCheckpoint(ActivationCheckpoint::kFull),
          ActivationCheckpoint(ActivationCheckpoint::kLayers, {"layers.1", "layers.4"})}) {
      options.activation_checkpoint = named;
      SCOPED_TRACE(schedule);
      expect_same_bits(once, train(model, options));
    }
  }
}

TEST(WholeModuleTest, PiecesOfAStageShareTheBuffersOutsideOfTheirParts) {
  const Model model = decoder(leaving_out, {.parts = parts()});
  PipelineOptions options = layout("1F1B", 1);
  options.activation_checkpoint = ActivationCheckpoint::kFull;
  run(model, options, [](Pipeline& pipeline) {
    ASSERT_GT(pipeline.modules().size(), 1u);
    const auto state = pipeline.local_state_dict();
    EXPECT_EQ(std::count_if(state.begin(), state.end(),
                            [](const auto& item) { return item.first == "scale"; }),
              1);
    pipeline.modules().front()->as<DecoderImpl>()->scale.fill_(5);
    for (const auto& module : pipeline.modules())
      EXPECT_EQ(module->as<DecoderImpl>()->scale.item<float>(), 5);
    pipeline.to(torch::kCPU);
    pipeline.modules().back()->as<DecoderImpl>()->scale.fill_(7);
    EXPECT_EQ(pipeline.modules().front()->as<DecoderImpl>()->scale.item<float>(), 7);
  });
}

TEST(WholeModuleTest, RunsPartsTwiceByTheirClass) {
  const Model model =
      decoder(leaving_out, {.parts = {{"embed_tokens", {"ids"}}, {"layers"}, {"norm"}, {"lm_head"}},
                            .block_class = "Block"});
  for (const std::string& name : {std::string("Block"), class_name<BlockImpl>()}) {
    PipelineOptions options = layout("1F1B", 2);
    options.partition.split_points = {"layers.3"};
    options.activation_checkpoint = {ActivationCheckpoint::kClasses, {name}};
    run(model, options, [](Pipeline& pipeline) {
      const Partition& partition = pipeline.plan().partition;
      EXPECT_EQ(partition.stages[0].recomputed, (std::vector<int>{1, 2, 3}));
      EXPECT_EQ(partition.stages[1].recomputed, (std::vector<int>{4, 5, 6}));
    });
  }
  const ModelSpec spec =
      describe(model.layers, {{"ids", {{2, 5}, at::kLong}}, {"labels", {{2, 5}, at::kLong}}});
  EXPECT_EQ(spec.layers[3].class_name, class_name<BlockImpl>());
}

TEST(WholeModuleTest, StatesKeepTheBuffersThatEveryStageHas) {
  const Model model = decoder(leaving_out, {.parts = parts()});
  run(model, layout("ZBVZeroBubble", 2), [](Pipeline& pipeline) {
    std::vector<at::Tensor> scales;
    for (const auto& module : pipeline.modules())
      scales.push_back(module->as<DecoderImpl>()->scale);
    ASSERT_EQ(scales.size(), 2u);
    scales[0].fill_(5);
    scales[1].fill_(7);
    std::vector<std::pair<std::string, at::Tensor>> state;
    for (const auto& [name, tensor] : pipeline.local_state_dict())
      state.emplace_back(name, tensor.clone());
    scales[0].fill_(1);
    scales[1].fill_(1);
    pipeline.load_state_dict(state);
    EXPECT_EQ(scales[0].item<float>(), 5);
    EXPECT_EQ(scales[1].item<float>(), 7);
    state.emplace_back("scale", at::ones({1}));
    const std::string refused = message_of([&] { pipeline.load_state_dict(state); });
    EXPECT_NE(refused.find("'scale' comes with different values"), std::string::npos) << refused;
    EXPECT_NE(refused.find("in a part of the module"), std::string::npos) << refused;
    EXPECT_EQ(scales[0].item<float>(), 5);
  });
}

TEST(WholeModuleTest, AModuleThatIsReadyTrainsOnOneStageAndAsksForAFactoryOnMore) {
  const Decoder net(0.0);
  Model model = from_module(net, run_decoder, {.parts = parts()});
  finish(model);
  model.initialization = {};
  const at::Tensor before = net->lm_head->weight.detach().clone();
  run(model, layout("1F1B", 1), [&](Pipeline& pipeline) {
    EXPECT_TRUE(at::equal(before, net->lm_head->weight));  // the weights are there already
    torch::optim::AdamW optimizer(pipeline.parameters(), torch::optim::AdamWOptions(1e-2));
    pipeline.train_step(batch_of(0));
    optimizer.step();
  });
  EXPECT_FALSE(at::equal(before, net->lm_head->weight));
  const Error error =
      error_of([&] { run(model, layout("1F1B", 2), [](Pipeline& /*pipeline*/) {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(error.fact().find("is ready made"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("give from_module a factory"), std::string::npos)
      << error.what();
}

TEST(ParallelizeTest, IsGivenEveryChunkAndMayFreezeAndReplaceItsModules) {
  const Model model = decoder(leaving_out, {.parts = parts()});
  RunOptions options;
  options.axis_names.pp = "stages";
  std::mutex mutex;
  std::map<int, LocalChunk> seen;
  options.parallelize = [&](LocalChunk& chunk) {
    {
      const std::lock_guard lock(mutex);
      seen[chunk.stage] = chunk;
    }
    if (chunk.is_first) {
      for (at::Tensor& p : chunk.modules[0]->parameters()) p.set_requires_grad(false);
    }
    if (chunk.is_last) {
      auto* net = chunk.modules[0]->as<DecoderImpl>();
      net->norm = net->replace_module(
          "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}).eps(0.1)));
    }
  };
  const Trained plain = train(model, layout("1F1B", 2));
  const Trained trained = train(model, layout("1F1B", 2), options);
  ASSERT_EQ(seen.size(), 2u);
  const LocalChunk& last = seen.at(1);
  EXPECT_EQ(last.rank, 1);
  EXPECT_EQ(last.num_stages, 2);
  EXPECT_FALSE(last.is_first);
  EXPECT_EQ(last.world_mesh["stages"].ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(last.world_mesh["stages"].coordinate, 1);
  EXPECT_EQ(last.world_mesh["stages"].group.size(), 2);
  EXPECT_FALSE(last.world_mesh["tp"].group);
  EXPECT_EQ(last.expert_mesh["ep"].size, 1);
  EXPECT_NE(message_of([&] { last.world_mesh["stage"]; }).find("did you mean 'stages'"),
            std::string::npos);
  EXPECT_NE(trained.losses[0], plain.losses[0]);  // the norm layer differs
  EXPECT_NE(plain.losses[0], plain.losses[1]);
  Trained once = train(model, layout("1F1B", 1));
  EXPECT_TRUE(
      at::equal(once.state.at("layers.0.norm.weight"), plain.state.at("layers.0.norm.weight")));
  EXPECT_TRUE(at::equal(at::ones({kWidth}), trained.state.at("layers.0.norm.weight")));  // frozen
  EXPECT_FALSE(at::equal(at::ones({kWidth}), trained.state.at("layers.5.norm.weight")));
}

TEST(ParallelizeTest, RefusesParametersThatComeOrGoUndeclared) {
  const Model model = decoder(leaving_out, {.parts = parts()});
  const auto attempt = [&](const Parallelize& hook) {
    return message_of([&] {
      run(model, layout("1F1B", 2), [](Pipeline& /*pipeline*/) {}, {.parallelize = hook});
    });
  };
  const auto adds = [](LocalChunk& chunk) {
    if (chunk.is_first)
      chunk.modules[0]->as<DecoderImpl>()->embed_tokens->register_parameter("gain", at::ones({1}));
  };
  const std::string added = attempt(adds);
  EXPECT_NE(added.find("added parameter 'embed_tokens.gain'"), std::string::npos) << added;
  EXPECT_NE(added.find("LocalChunk::added"), std::string::npos) << added;
  const std::string removed = attempt([](LocalChunk& chunk) {
    if (chunk.is_last) chunk.modules[0]->unregister_module("norm");
  });
  EXPECT_NE(removed.find("taken out or renamed parameter 'norm."), std::string::npos) << removed;
  const std::string gone = attempt([](LocalChunk& chunk) { chunk.modules[0] = nullptr; });
  EXPECT_NE(gone.find("left no module"), std::string::npos) << gone;
  const std::string other = message_of([&] {
    run(model, layout("1F1B", 2), [](Pipeline& pipeline) { pipeline.train_step(batch_of(0)); },
        {.parallelize = [](LocalChunk& chunk) {
          auto wrapped = std::make_shared<torch::nn::Module>();
          for (const auto& item : chunk.modules[0]->named_children())
            wrapped->register_module(item.key(), item.value());
          wrapped->register_buffer("scale", at::ones({1}));
          chunk.modules[0] = wrapped;
        }});
  });
  EXPECT_NE(other.find("a module of the same class"), std::string::npos) << other;
  run(model, layout("1F1B", 2),
      [](Pipeline& pipeline) {
        for (const ParameterInfo& info : pipeline.named_parameters())
          if (info.name == "embed_tokens.gain") return;
        EXPECT_FALSE(pipeline.has_first_stage());
      },
      {.parallelize = [&](LocalChunk& chunk) {
        adds(chunk);
        if (chunk.is_first) chunk.added = {"embed_tokens.gain"};
      }});
}

TEST(WholeModuleTest, AListMayBeOnePartThatOtherStagesDropAsAWhole) {
  const Model model =
      decoder(dropping, {.parts = {{"embed_tokens", {"ids"}}, {"layers"}, {"norm"}, {"lm_head"}}});
  const Trained one = train(model, layout("1F1B", 1)), two = train(model, layout("1F1B", 2));
  EXPECT_EQ(one.losses, two.losses);
}

TEST(WholeModuleTest, ShapesThatDoNotFitAreThoseOfAStagesParts) {
  const auto too_wide = [](DecoderImpl& net, const at::Tensor& x) {
    return net.forward(net.norm ? at::cat({x, x}, -1) : x);
  };
  Model model = from_module(leaving_out, too_wide, {.parts = parts()});
  finish(model);
  const std::string said = message_of([&] {
    run(model, layout("1F1B", 2), [](Pipeline& pipeline) { pipeline.train_step(batch_of(0)); });
  });
  EXPECT_NE(said.find("rank 1, instruction"), std::string::npos) << said;
  EXPECT_NE(said.find("DecoderImpl, parts 'layers."), std::string::npos) << said;
  EXPECT_NE(said.find("' to 'lm_head'"), std::string::npos) << said;
}

TEST(WholeModuleDeathTest, SaysWhoseForwardMetAnElementThatItsStageDropped) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the program at the null pointer";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto unguarded = [](DecoderImpl& net, const at::Tensor& input) {
    at::Tensor x = net.embed_tokens ? net.embed_tokens(input) : input;
    for (const auto& module : *net.layers) x = module->as<BlockImpl>()->forward(x);
    if (net.norm) x = net.norm(x);
    return net.lm_head ? net.lm_head(x) : x;
  };
  Model model = from_module(leaving_out, unguarded, {.parts = parts()});
  finish(model);
  EXPECT_DEATH(
      run(model, layout("1F1B", 2), [](Pipeline& pipeline) { pipeline.train_step(batch_of(0)); }),
      "sluice: error: a null pointer in the forward of .*DecoderImpl, parts '.*' to '.*'; is it an "
      "element that this stage does not keep");
}

// "Moves" to a wider dtype, to test without a second device.
struct MovableImpl : torch::nn::LinearImpl {
  MovableImpl() : LinearImpl(kWidth, kWidth) {}
  void to(torch::Device /*device*/, bool /*non_blocking*/) override { Module::to(at::kDouble); }
};

TEST(PipelineToTest, MovesTheModulesAndTakesTheirParametersAnew) {
  Model model;
  for (const char* name : {"first", "second"}) {
    LayerSpec& layer = model.layers.emplace_back();
    layer.name = name;
    layer.make = [] { return std::make_shared<MovableImpl>(); };
    layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
      return std::vector{dynamic_cast<MovableImpl&>(module).forward(in[0])};
    };
  }
  model.layers[0].reads = {"x"};
  model.inputs = {"x"};
  model.outputs = {"hidden"};
  model.loss = mean_loss([](const Values& out, const Values&) { return out["hidden"].mean(); });
  PipelineOptions options = layout("1F1B", 2);
  run(model, options, [](Pipeline& pipeline) {
    pipeline.to(at::kCPU);
    EXPECT_EQ(pipeline.modules().size(), 1u);
    pipeline.train_step({{"x", at::ones({4, kWidth}, at::kDouble)}});
    for (const at::Tensor& p : pipeline.parameters()) {
      EXPECT_EQ(p.scalar_type(), at::kDouble);
      EXPECT_EQ(p.grad().scalar_type(), at::kDouble);
    }
  });
}

TEST(PipelineToTest, IsRefusedOnceAnOptimizerMayHoldTheParameters) {
  const Model model = decoder(leaving_out, {.parts = parts()});
  run(model, layout("1F1B", 2), [](Pipeline& pipeline) {
    pipeline.parameters();
    const std::string given = message_of([&] { pipeline.to(at::kCPU); });
    EXPECT_NE(given.find("parameters() was called already"), std::string::npos) << given;
    EXPECT_NE(given.find("then make the optimizer"), std::string::npos) << given;
  });
  run(model, layout("1F1B", 2), [](Pipeline& pipeline) {
    pipeline.eval_step(batch_of(0));
    const std::string stepped = message_of([&] { pipeline.to(at::kCPU); });
    EXPECT_NE(stepped.find("has made a step"), std::string::npos) << stepped;
  });
}

Decoder numbered(const Kept& kept) {
  Decoder net;
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters())
    parameter.copy_(at::linspace(-0.5, 0.5, parameter.numel()).view_as(parameter));
  drop_unkept(*net, kept, net->embed_tokens, net->layers, net->norm, net->lm_head);
  return net;
}

TEST(WholeModuleTest, FactoryWeightsAreTheNumbersOfTheFactoryOnAnyNumberOfRanks) {
  Model model = decoder(numbered, {.parts = parts()});
  for (const int ranks : {1, 2, 3}) {
    std::atomic<int> num_compared = 0;
    run(model, layout("1F1B", ranks),
        [&](Pipeline& pipeline) {
          for (const ParameterInfo& parameter : pipeline.named_parameters()) {
            const at::Tensor& value = parameter.tensor;
            EXPECT_TRUE(at::equal(value, at::linspace(-0.5, 0.5, value.numel()).view_as(value)))
                << parameter.name << " with " << ranks << " ranks";
            ++num_compared;
          }
          EXPECT_TRUE(std::isfinite(pipeline.train_step(batch_of(0)).loss));
        },
        {.weights = InitialWeights::kFactory});
    EXPECT_GT(num_compared, 0);
  }
}

TEST(WholeModuleTest, AStepOfParametersThatLoadWeightsLeftOutIsRefusedByName) {
  Model model = decoder(numbered, {.parts = parts()});
  const Error error = error_of([&] {
    run(model, layout("1F1B", 2),
        [](Pipeline& pipeline) {
          pipeline.load_weights([](Stage& stage) {
            const at::NoGradGuard no_grad;
            for (const ParameterInfo& parameter : stage.parameters())
              if (parameter.name != "norm.weight") at::Tensor(parameter.tensor).fill_(0.1);
          });
          pipeline.train_step(batch_of(0));
        },
        {.weights = InitialWeights::kNone});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  EXPECT_NE(std::string(error.what()).find("nothing draws or loads 'norm.weight'"),
            std::string::npos)
      << error.what();
}

}  // namespace
}  // namespace sluice::test::whole_module_test
