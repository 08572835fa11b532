// Trains models divided by a table of names, and a native family. The bits must be the same for
// every degree, schedule and number of replicas, with rows divided or whole.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "sluice/causal_lm.h"
#include "sluice/checkpoint.h"
#include "sluice/parts/tensor_parallel.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::test::sliced_training_test {
namespace {

struct Layout {
  int tp = 1, pp = 1, dp = 1;
  bool sequence = true, zero1 = false, zero3 = false, checkpointed = false;
  const char* schedule = "1F1B";
  int slices = 4;
};

std::string name_of(const Layout& layout) {
  return std::string(layout.schedule) + ", tp " + std::to_string(layout.tp) + ", pp " +
         std::to_string(layout.pp) + ", dp " + std::to_string(layout.dp) +
         (layout.sequence ? ", rows divided" : ", rows whole") +
         (layout.zero3   ? ", zero3"
          : layout.zero1 ? ", zero1"
                         : "") +
         (layout.checkpointed ? ", checkpointed" : "");
}

PipelineOptions options_of(const Layout& layout) {
  PipelineOptions options;
  options.num_ranks = layout.pp;
  options.schedule = layout.schedule;
  options.num_microbatches = 4 / layout.dp;
  options.data_parallel = {.degree = layout.dp, .shards = 2};
  options.data_parallel.zero1 = layout.zero1;
  options.data_parallel.zero3 = layout.zero3;
  options.tensor_parallel = {
      .degree = layout.tp, .slices = layout.slices, .sequence = layout.sequence};
  options.step_end = StepEnd::kUpdate;
  if (layout.checkpointed) options.activation_checkpoint = ActivationCheckpoint::kFull;
  return options;
}

struct Result {
  std::vector<double> losses, norms;
  std::vector<std::int64_t> counts;
  std::map<std::string, std::string> tensors;
};

using Batch = std::function<Inputs(int step, int replica, int degree)>;

Result train(const Model& model, const Layout& layout, const Batch& batch, const Parallelize& hook,
             const std::string& to, const std::string& from = "", int first = 0, int last = 5) {
  Result result;
  std::mutex mutex;
  RunOptions options;
  options.seed = 3;
  options.parallelize = hook;
  run(
      model, options_of(layout),
      [&](Pipeline& pipeline) {
        Trainer trainer(pipeline, {.max_norm = 0.5});
        if (!from.empty()) pipeline.load(from);
        Result own;
        for (int step = first; step < last; ++step) {
          const StepResult done = trainer.step(batch(step, pipeline.replica(), layout.dp), 1e-2);
          own.losses.push_back(done.loss);
          own.norms.push_back(done.grad_norm);
          own.counts.push_back(done.count);
        }
        pipeline.save(to);
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(result.losses.empty() || result.losses == own.losses) << name_of(layout);
        EXPECT_TRUE(result.norms.empty() || result.norms == own.norms) << name_of(layout);
        result.losses = own.losses, result.norms = own.norms, result.counts = own.counts;
      },
      options);
  const Checkpoint checkpoint(to);
  for (const auto* tensors : {&checkpoint.manifest().weights, &checkpoint.manifest().optimizer})
    for (const SavedTensor& tensor : *tensors) result.tensors[tensor.name] = tensor.hash;
  return result;
}

void expect_same(const Result& a, const Result& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.counts, b.counts) << what;
  EXPECT_EQ(a.tensors.size(), b.tensors.size()) << what;
  for (const auto& [name, hash] : a.tensors) {
    const auto found = b.tensors.find(name);
    EXPECT_TRUE(found != b.tensors.end() && found->second == hash) << name << ", " << what;
  }
}

// ---- a user's two-layer model, divided by a table ----

constexpr std::int64_t kHidden = 24, kWide = 52, kVocabulary = 37, kHead = 6, kLength = 8;

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    register_module("norm", norm), register_module("q_proj", q), register_module("k_proj", k);
    register_module("v_proj", v), register_module("o_proj", o), register_module("up", up);
    register_module("down", down);
  }
  // `dropout` applies to rows, to columns and in attention.
  at::Tensor forward(at::Tensor x, double dropout) {
    const auto drop = [&](const at::Tensor& all) {
      return at::dropout(all, dropout, is_training());
    };
    const at::Tensor h = norm(x);
    const auto heads = [](const at::Tensor& all) {
      return all.unflatten(-1, {-1, kHead}).transpose(1, 2);
    };
    x = x + drop(o(at::scaled_dot_product_attention(heads(q(h)), heads(k(h)), heads(v(h)), {},
                                                    is_training() ? dropout : 0.0, true)
                       .transpose(1, 2)
                       .flatten(2)));
    return x + drop(down(drop(torch::silu(up(x)))));
  }
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kHidden})};
  torch::nn::Linear q{kHidden, kHidden}, k{kHidden, kHidden}, v{kHidden, kHidden},
      o{kHidden, kHidden}, up{kHidden, kWide}, down{kWide, kHidden};
};
TORCH_MODULE(Block);

Model two_layers(double dropout = 0) {
  const auto block = [&](const char* name) {
    return layer(
        name, {"hidden"}, {"hidden"}, [] { return Block(); },
        [dropout](BlockImpl& net, const Values& in) { return net.forward(in["hidden"], dropout); });
  };
  Model model;
  model.layers = {
      layer(
          "embed", {"ids"}, {"hidden"}, [] { return torch::nn::Embedding(kVocabulary, kHidden); },
          [](torch::nn::EmbeddingImpl& embed, const Values& in) {
            return embed.forward(in["ids"]);
          }),
      block("layers.0"), block("layers.1"),
      layer(
          "head", {"hidden"}, {"hidden"}, [] { return torch::nn::Linear(kHidden, kVocabulary); },
          [](torch::nn::LinearImpl& head, const Values& in) {
            return head.forward(in["hidden"]);
          })};
  model.inputs = {"ids"};
  model.outputs = {"hidden"};
  model.count = [](const Values& batch) { return batch.get("ids").numel(); };
  model.loss = [](const Values& out, const Values& in) {
    const at::Tensor logits = out["hidden"].flatten(0, 1);
    return LossValue{at::cross_entropy_loss(logits, in["ids"].flatten(), {}, at::Reduction::Sum),
                     logits.size(0)};
  };
  return model;
}

const ParallelTable kTable = {
    {"embed", kRowwise},    {"*.q_proj", kColwise}, {"*.k_proj", kColwise},
    {"*.v_proj", kColwise}, {"*.o_proj", kRowwise}, {"*.up", kColwise},
    {"*.down", kRowwise},   {"*.norm", kSequence},  {"head", kColwiseGather}};

void divide(LocalChunk& chunk) { parallelize_module(chunk, kTable); }

Inputs rows_of(int step, int replica, int degree) {
  const at::Tensor ids =
      at::arange(8 * kLength, at::kLong).mul(7).add(step).remainder(kVocabulary).view({8, kLength});
  return {{"ids", ids.tensor_split(degree)[static_cast<std::size_t>(replica)]}};
}

const std::vector<Layout> kLayouts = {
    {.tp = 1, .sequence = false},
    {.tp = 2},
    {.tp = 2, .sequence = false},
    {.tp = 4},
    {.tp = 4, .sequence = false, .schedule = "GPipe"},
    {.tp = 2, .pp = 2},
    {.tp = 2, .pp = 2, .schedule = "GPipe"},
    {.tp = 2, .pp = 2, .schedule = "ZBVZeroBubble"},
    {.tp = 2, .dp = 2, .zero1 = true},
    {.tp = 2, .pp = 2, .dp = 2, .zero3 = true, .checkpointed = true},
    {.tp = 4, .checkpointed = true},
};

TEST(SlicedTrainingTest, AModelDividedByATableHasTheSameBitsInEveryLayout) {
  const TempDirectory folder;
  const Result one = train(two_layers(), {}, rows_of, divide, folder / "one");
  for (const Layout& layout : kLayouts) {
    expect_same(one, train(two_layers(), layout, rows_of, divide, folder / name_of(layout)),
                name_of(layout));
  }
}

// NeuronX users write such a hook. It initializes each module that has weights, here by the
// module's class.
Model drawn_by_module() {
  Model model = two_layers();
  model.initialization.module = [](const std::string& /*name*/, torch::nn::Module& module) {
    if (auto* linear = module.as<torch::nn::LinearImpl>()) {
      const std::int64_t inputs = linear->weight.size(1);
      torch::nn::init::normal_(linear->weight, 0.0, 1.0 / std::sqrt(static_cast<double>(inputs)));
      torch::nn::init::zeros_(linear->bias);
    }
    if (auto* embedding = module.as<torch::nn::EmbeddingImpl>()) {
      EXPECT_EQ(embedding->weight.size(0), kVocabulary);
      torch::nn::init::normal_(embedding->weight, 0.0, 0.02);
    }
  };
  return model;
}

TEST(SlicedTrainingTest, AModuleDrawsItsWholeWeightsInEveryLayout) {
  const TempDirectory folder;
  const Result one = train(drawn_by_module(), {}, rows_of, divide, folder / "one");
  const Result plain = train(two_layers(), {}, rows_of, divide, folder / "plain");
  EXPECT_NE(one.losses, plain.losses);
  for (const Layout& layout : kLayouts) {
    expect_same(one, train(drawn_by_module(), layout, rows_of, divide, folder / name_of(layout)),
                name_of(layout));
  }
}

const std::vector<Layout> kFewLayouts = {
    {.tp = 2, .sequence = false},
    {.tp = 4, .checkpointed = true},
    {.tp = 2, .pp = 2, .schedule = "ZBVZeroBubble"},
    {.tp = 2, .pp = 2, .dp = 2, .zero3 = true, .checkpointed = true},
};

TEST(SlicedTrainingTest, DropoutOfAModelDividedByATableHasTheSameBitsInEveryLayout) {
  const TempDirectory folder;
  const Result plain = train(two_layers(), {}, rows_of, divide, folder / "plain");
  const Result one = train(two_layers(0.2), {}, rows_of, divide, folder / "one");
  EXPECT_NE(one.losses, plain.losses);
  for (const Layout& layout : kFewLayouts) {
    expect_same(one, train(two_layers(0.2), layout, rows_of, divide, folder / name_of(layout)),
                name_of(layout));
  }
}

void divide_feed_forward(LocalChunk& chunk) {
  parallelize_module(chunk, {{"*up", kColwise}, {"*down", kRowwise}});
}

void divide_all_layers(LocalChunk& chunk) {
  parallelize_module(
      chunk, {{"embed", kRowwise}, {"up", kColwise}, {"down", kRowwise}, {"head", kColwiseGather}});
}

// The table does not list the embedding, so every rank has all rows of what follows.
TEST(SlicedTrainingTest, APartOfAModelMayBeDividedAlone) {
  const TempDirectory folder;
  const Result one = train(two_layers(), {}, rows_of, divide_feed_forward, folder / "one");
  for (const Layout& layout : kFewLayouts) {
    expect_same(one,
                train(two_layers(), layout, rows_of, divide_feed_forward, folder / name_of(layout)),
                name_of(layout));
  }
}

// Every module is a layer of its own. A layer may therefore receive divided values from another
// layer, even across a stage boundary.
Model one_module_a_layer() {
  Model model = two_layers();
  const auto of = [](const char* name, auto make) {
    return layer(name, {"hidden"}, {"hidden"}, make,
                 [](typename decltype(make())::ContainedType& net, const Values& in) {
                   return net.forward(in["hidden"]);
                 });
  };
  model.layers = {model.layers.front(),
                  of("up", [] { return torch::nn::Linear(kHidden, kWide); }),
                  of("act", [] { return torch::nn::SiLU(); }),
                  of("drop", [] { return torch::nn::Dropout(0.2); }),
                  of("down", [] { return torch::nn::Linear(kWide, kHidden); }),
                  of("drop_again", [] { return torch::nn::Dropout(0.2); }),
                  model.layers.back()};
  return model;
}

TEST(SlicedTrainingTest, ALayerTakesWhatAnotherHasDivided) {
  const TempDirectory folder;
  const Result one = train(one_module_a_layer(), {}, rows_of, divide_all_layers, folder / "one");
  for (const Layout& layout : kFewLayouts) {
    if (layout.schedule == std::string("ZBVZeroBubble")) continue;
    expect_same(
        one,
        train(one_module_a_layer(), layout, rows_of, divide_all_layers, folder / name_of(layout)),
        name_of(layout));
  }
  // On the second stage, nothing determines how rows and columns are divided.
  const std::string message = message_of([&] {
    train(one_module_a_layer(), {.tp = 2, .pp = 2, .schedule = "ZBVZeroBubble"}, rows_of,
          divide_all_layers, folder / "refused");
  });
  EXPECT_NE(message.find("dropout in a stage without a divided product"), std::string::npos)
      << message;
  const Result part =
      train(one_module_a_layer(), {}, rows_of, divide_feed_forward, folder / "part");
  for (const Layout& layout : {Layout{.tp = 2}, Layout{.tp = 4, .checkpointed = true}}) {
    expect_same(part,
                train(one_module_a_layer(), layout, rows_of, divide_feed_forward,
                      folder / ("part of " + name_of(layout))),
                name_of(layout));
  }
}

TEST(SlicedTrainingTest, AWeightOfDividedRowsThatIsInNoTableIsRefused) {
  const TempDirectory folder;
  for (const auto& [missing, name] : {std::pair("*.norm", "layers.0.norm.weight"),
                                      {"head", "head.weight"},
                                      {"*.up", "layers.0.up.weight"}}) {
    const auto divide_others = [missing = std::string(missing)](LocalChunk& chunk) {
      ParallelTable table = kTable;
      std::erase_if(table, [&](const auto& row) { return row.first == missing; });
      if (missing == "*.up")
        std::erase_if(table, [](const auto& row) { return row.first == "*.down"; });
      parallelize_module(chunk, table);
    };
    const std::string message = message_of(
        [&] { train(two_layers(), {.tp = 2}, rows_of, divide_others, folder / "refused"); });
    EXPECT_NE(message.find("'" + std::string(name) +
                           "' is not in the table, but is read with 4 of 8 rows"),
              std::string::npos)
        << message;
    // The same table is valid if every rank has all rows.
    const Result one =
        train(two_layers(), {.sequence = false}, rows_of, divide_others, folder / "one");
    expect_same(
        one,
        train(two_layers(), {.tp = 2, .sequence = false}, rows_of, divide_others, folder / "two"),
        missing);
  }
}

TEST(SlicedTrainingTest, ANativeFamilyHasTheSameBitsInEveryLayout) {
  nlohmann::json config = nlohmann::json::parse(
      read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models_extra/qwen2_tied")
          .config_text);
  config["num_hidden_layers"] = 4;
  config.erase("layer_types");
  const ModelSpec spec = parse_model_spec(config.dump(), "config.json");
  const auto batch = [](int step, int replica, int degree) -> Inputs {
    const at::Tensor ids = at::arange(8 * kLength, at::kLong)
                               .mul(7)
                               .add(step)
                               .remainder(kVocabulary)
                               .view({8, kLength})
                               .tensor_split(degree)[static_cast<std::size_t>(replica)];
    return {{"input_ids", ids}, {"labels", ids}};
  };
  const Model model = causal_lm(spec);
  const TempDirectory folder;
  const Result one = train(model, {.slices = 2}, batch, {}, folder / "one");
  for (Layout layout : kLayouts) {
    if (layout.tp > 2) continue;
    layout.slices = 2;
    expect_same(one, train(model, layout, batch, {}, folder / name_of(layout)), name_of(layout));
  }
}

// Routers and experts are computed by rows, and the balance loss covers the rows of all slices.
TEST(SlicedTrainingTest, ExpertsHaveTheSameBitsInEveryLayoutAndLossesLikeOneSlice) {
  nlohmann::json config = nlohmann::json::parse(
      read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models_extra/mixtral_balance")
          .config_text);
  config["num_hidden_layers"] = 4;
  config["num_key_value_heads"] = config["num_attention_heads"];
  config["initializer_range"] = 0.2;
  config["router_aux_loss_coef"] = 0.5;
  const ModelSpec spec = parse_model_spec(config.dump(), "config.json");
  const auto batch = [](int step, int replica, int degree) -> Inputs {
    const at::Tensor ids = at::arange(8 * kLength, at::kLong)
                               .mul(7)
                               .add(step)
                               .remainder(kVocabulary)
                               .view({8, kLength})
                               .tensor_split(degree)[static_cast<std::size_t>(replica)];
    return {{"input_ids", ids}, {"labels", ids}};
  };
  const Model model = causal_lm(spec);
  const TempDirectory folder;
  const Result one = train(model, {}, batch, {}, folder / "one");
  const Result whole = train(model, {.slices = 1}, batch, {}, folder / "whole");
  for (std::size_t step = 0; step < one.losses.size(); ++step) {
    EXPECT_NEAR(one.losses[step], whole.losses[step], 2e-5) << step;
    EXPECT_NEAR(one.norms[step], whole.norms[step], 1e-4 * whole.norms[step]) << step;
  }
  for (const Layout& layout : kLayouts)
    expect_same(one, train(model, layout, batch, {}, folder / name_of(layout)), name_of(layout));
}

TEST(SlicedTrainingTest, ACheckpointOfAnyDegreeGoesOnAtAnyOther) {
  const TempDirectory folder;
  const Result one = train(two_layers(), {}, rows_of, divide, folder / "one");
  for (const auto& [from, to] : {std::pair(4, 1), std::pair(1, 2), std::pair(2, 4)}) {
    const std::string begun = folder / ("begun" + std::to_string(from));
    train(two_layers(), {.tp = from}, rows_of, divide, begun, "", 0, 3);
    const Result rest = train(two_layers(), {.tp = to}, rows_of, divide,
                              folder / ("ended" + std::to_string(from)), begun, 3, 5);
    EXPECT_EQ(rest.losses, std::vector<double>(one.losses.begin() + 3, one.losses.end()));
    EXPECT_EQ(rest.tensors, one.tensors);
  }
}

// Has norms of heads, biases in all projections, a tied head, and rows with unlabelled tokens.
Model family_model(const Precision& precision = {}, std::int64_t head_dim = 8) {
  nlohmann::json config = nlohmann::json::parse(
      read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models_extra/qwen3_biases_tied")
          .config_text);
  config["num_hidden_layers"] = 4;
  config["num_attention_heads"] = config["num_key_value_heads"] = 4;
  config["head_dim"] = head_dim;
  config.erase("layer_types");
  return causal_lm(parse_model_spec(config.dump(), "config.json", precision),
                   {.fused = precision.fused});
}

// ---- lengths that the slices do not divide ----

Inputs uneven(int step, int replica, int degree, bool labelled) {
  const std::int64_t length = std::array{7, 8, 6, 3, 5}[static_cast<std::size_t>(step)];
  const at::Tensor ids = at::arange(8 * length, at::kLong)
                             .mul(7)
                             .add(step)
                             .remainder(kVocabulary)
                             .view({8, length})
                             .tensor_split(degree)[static_cast<std::size_t>(replica)];
  return labelled ? Inputs{{"input_ids", ids}, {"labels", ids}} : Inputs{{"ids", ids}};
}

const std::vector<Layout> kUnevenLayouts = {
    {.tp = 1, .sequence = false},
    {.tp = 2, .pp = 2, .sequence = false},
    {.tp = 2},
    {.tp = 4, .pp = 2},
    {.tp = 2, .pp = 2, .schedule = "ZBVZeroBubble"},
    {.tp = 2, .pp = 2, .dp = 2, .zero3 = true, .checkpointed = true},
};

TEST(UnevenRowsTest, AModelDividedByATableHasTheSameBitsForEveryLength) {
  const TempDirectory folder;
  const auto batch = [](int step, int replica, int degree) {
    return uneven(step, replica, degree, /*labelled=*/false);
  };
  const Result one = train(two_layers(), {}, batch, divide, folder / "one");
  for (const Layout& layout : kUnevenLayouts) {
    expect_same(one, train(two_layers(), layout, batch, divide, folder / name_of(layout)),
                name_of(layout));
  }
}

TEST(UnevenRowsTest, ANativeFamilyHasTheSameBitsForEveryLength) {
  const TempDirectory folder;
  const auto batch = [](int step, int replica, int degree) {
    return uneven(step, replica, degree, /*labelled=*/true);
  };
  for (const auto& [at, precision] :
       {std::pair("plain", Precision{.fused = false}), std::pair("fused", Precision{})}) {
    const Model model = family_model(precision, /*head_dim=*/16);
    const std::string within = std::string(", ") + at;
    const Result one = train(model, {}, batch, {}, folder / at);
    for (const Layout& layout : kUnevenLayouts) {
      expect_same(one, train(model, layout, batch, {}, folder / (name_of(layout) + within)),
                  name_of(layout) + within);
    }
  }
}

// ---- every layout ----

Inputs labelled_rows(int step, int replica, int degree) {
  const at::Tensor ids =
      at::arange(8 * kLength, at::kLong).mul(7).add(step).remainder(kVocabulary).view({8, kLength});
  const auto of_replica = [&](const at::Tensor& all) {
    return all.tensor_split(degree)[static_cast<std::size_t>(replica)];
  };
  const at::Tensor labels = ids.masked_fill(ids.remainder(5).eq(1), -100);
  return {{"input_ids", of_replica(ids)}, {"labels", of_replica(labels)}};
}

std::vector<Layout> every_layout() {
  std::vector<Layout> layouts;
  for (const int tp : {1, 2, 4})
    for (const bool sequence : {true, false})
      for (const int pp : {1, 2})
        for (const int dp : {1, 2})
          for (const int zero : {0, 1, 3})
            for (const char* schedule : {"GPipe", "1F1B", "ZBVZeroBubble"})
              for (const bool checkpointed : {false, true}) {
                if (zero > 0 && dp == 1) continue;
                layouts.push_back({.tp = tp,
                                   .pp = pp,
                                   .dp = dp,
                                   .sequence = sequence,
                                   .zero1 = zero == 1,
                                   .zero3 = zero == 3,
                                   .checkpointed = checkpointed,
                                   .schedule = schedule});
              }
  return layouts;
}

void expect_bits_of_one_rank(std::size_t every) {
  const TempDirectory folder;
  const Model family = family_model();
  const Result of_family = train(family, {}, labelled_rows, {}, folder / "family");
  const Result of_table = train(two_layers(), {}, rows_of, divide, folder / "table");
  EXPECT_LT(of_family.losses.back(), of_family.losses.front());
  const std::vector<Layout> layouts = every_layout();
  ASSERT_EQ(layouts.size(), 3 * 2 * 2 * (1 + 3) * 3 * 2U);
  for (std::size_t i = 0; i < layouts.size(); i += every) {
    const std::string what = name_of(layouts[i]);
    expect_same(of_family, train(family, layouts[i], labelled_rows, {}, folder / "layout"), what);
    std::filesystem::remove_all(folder / "layout");
    expect_same(of_table, train(two_layers(), layouts[i], rows_of, divide, folder / "layout"),
                what + ", by a table");
    std::filesystem::remove_all(folder / "layout");
  }
}

TEST(SlicedMatrixTest, HasTheBitsOfOneRankForASampleOfLayouts) { expect_bits_of_one_rank(41); }
TEST(MoreSlicedMatrixTest, HasTheBitsOfOneRankForManyLayouts) { expect_bits_of_one_rank(5); }
TEST(SlowSlicedMatrixTest, HasTheBitsOfOneRankForEveryLayout) { expect_bits_of_one_rank(1); }

}  // namespace
}  // namespace sluice::test::sliced_training_test
