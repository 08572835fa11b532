#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/support.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"
#include "sluice/model_spec.h"
#include "support/expect_error.h"
#include "support/own_products.h"

namespace sluice::testing {
namespace {

struct Case {
  std::string name, config;
};

std::string decoder(const std::string& family, const std::string& more = "",
                    int key_value_heads = 2) {
  return R"({"model_type": ")" + family + R"(", "vocab_size": 67, "hidden_size": 40,
    "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
    "head_dim": 16, "pad_token_id": null, "initializer_range": 0.2,
    "num_key_value_heads": )" +
         std::to_string(key_value_heads) + more + "}";
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"llama", decoder("llama")},
      {"llama with biases", decoder("llama", R"(, "attention_bias": true, "mlp_bias": true)")},
      {"llama of one key-value head", decoder("llama", "", 1)},
      {"llama of ReLU", decoder("llama", R"(, "hidden_act": "relu")")},
      {"llama of GELU", decoder("llama", R"(, "hidden_act": "gelu")")},
      {"llama with a tied head", decoder("llama", R"(, "tie_word_embeddings": true)")},
      {"mistral", decoder("mistral", R"(, "sliding_window": 5)")},
      {"qwen3", decoder("qwen3")},
      {"gemma2", decoder("gemma2", R"(, "sliding_window": 7, "attn_logit_softcapping": 2.0,
                                        "query_pre_attn_scalar": 24)")},
      {"gemma3", decoder("gemma3_text", R"(, "sliding_window": 4, "sliding_window_pattern": 2,
                                             "query_pre_attn_scalar": 24)")},
      {"olmo2", decoder("olmo2")},
      {"granite", decoder("granite", R"(, "residual_multiplier": 0.5,
                                          "attention_multiplier": 0.3)")},
      {"smollm3", decoder("smollm3", R"(, "no_rope_layer_interval": 2)")},
      {"phi3", R"({"model_type": "phi3", "vocab_size": 67, "hidden_size": 64,
         "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "pad_token_id": null, "initializer_range": 0.2,
         "partial_rotary_factor": 0.5, "resid_pdrop": 0.0, "embd_pdrop": 0.0})"},
      {"gpt2", R"({"model_type": "gpt2", "vocab_size": 67, "n_embd": 64, "n_layer": 2, "n_head": 4,
         "n_positions": 64, "initializer_range": 0.2, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
         "attn_pdrop": 0.0})"},
      {"gpt_neox", R"({"model_type": "gpt_neox", "vocab_size": 67, "hidden_size": 64,
         "intermediate_size": 72, "num_hidden_layers": 2, "num_attention_heads": 4,
         "initializer_range": 0.2})"},
      {"gpt_neox in turn", R"({"model_type": "gpt_neox", "vocab_size": 67, "hidden_size": 64,
         "intermediate_size": 72, "num_hidden_layers": 2, "num_attention_heads": 4,
         "initializer_range": 0.2, "use_parallel_residual": false})"},
      {"starcoder2", R"({"model_type": "starcoder2", "vocab_size": 67, "hidden_size": 64,
         "intermediate_size": 72, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "sliding_window": 5, "initializer_range": 0.2})"},
      {"mixtral", decoder("mixtral", R"(, "num_local_experts": 4, "num_experts_per_tok": 2)")},
      {"qwen2", decoder("qwen2")},
      {"qwen3_moe", decoder("qwen3_moe", R"(, "num_experts": 4, "num_experts_per_tok": 2,
                                              "moe_intermediate_size": 24, "norm_topk_prob": true)")},
      {"olmoe", R"({"model_type": "olmoe", "vocab_size": 67, "hidden_size": 64,
         "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 4, "num_experts": 4, "num_experts_per_tok": 2,
         "pad_token_id": null, "initializer_range": 0.2})"},
  };
  return all;
}

std::vector<at::Tensor> parameters_of(ChunkChain& model) {
  std::vector<at::Tensor> all;
  for (Chunk& chunk : model.chunks())
    for (const ParameterInfo& parameter : chunk.parameters()) all.push_back(parameter.tensor);
  return all;
}

struct Models {
  ChunkChain fused, plain, exact;

  explicit Models(const std::string& config, std::uint64_t seed = 11)
      : fused(parse_model_spec(config, "config.json"), {}, {.fused = true}),
        plain(parse_model_spec(config, "config.json"), {}, {.fused = false}),
        exact(parse_model_spec(config, "config.json"), {}, {.dtype = at::kDouble, .fused = false}) {
    const at::NoGradGuard no_grad;
    plain.initialize(seed);
    const auto of_plain = parameters_of(plain), of_fused = parameters_of(fused),
               of_exact = parameters_of(exact);
    for (std::size_t i = 0; i < of_plain.size(); ++i) {
      // Norms and biases get values that affect the result.
      if (of_plain[i].dim() == 1)
        of_plain[i].add_(at::sin(at::arange(of_plain[i].numel()).to(at::kFloat)) * 0.3);
      of_fused[i].copy_(of_plain[i]);
      of_exact[i].copy_(of_plain[i]);
    }
  }
};

struct Computed {
  at::Tensor logits;
  std::map<std::string, at::Tensor> gradients;
};

Computed run(ChunkChain& model, const Values& batch) {
  model.train(true);
  const at::Tensor logits = model.forward(batch).get("logits");
  const at::Tensor weights =
      at::cos(at::arange(logits.numel(), logits.options().requires_grad(false)).view_as(logits));
  model.backward((logits * weights).sum());
  Computed result{logits.detach().clone(), model.gradients()};
  for (auto& [name, gradient] : result.gradients) gradient = gradient.clone();
  model.clear_gradients();
  return result;
}

double distance(const at::Tensor& found, const at::Tensor& exact) {
  return (found.to(at::kDouble) - exact).norm().item<double>();
}

Values batch_of(std::int64_t rows, std::int64_t length) {
  const at::Tensor ids =
      (at::arange(rows * length, at::kLong) * 7 + 3).remainder(61).view({rows, length});
  return {{"input_ids", ids}, {"labels", ids}};
}

// Sums of squared distances to the float64 results.
struct Errors {
  double of_fused = 0, of_plain = 0, of_exact = 0;
  void add(const at::Tensor& fused, const at::Tensor& plain, const at::Tensor& exact) {
    of_fused += std::pow(distance(fused, exact), 2);
    of_plain += std::pow(distance(plain, exact), 2);
    of_exact += std::pow(exact.norm().item<double>(), 2);
  }
  // Rounding a result costs at least one part in 10^7 of its size.
  void expect_alike(const std::string& what) const {
    EXPECT_LE(std::sqrt(of_fused), 2 * std::sqrt(of_plain) + 3e-7 * std::sqrt(of_exact)) << what;
  }
};

// Returns the same batches for every model. Models without learned positions also get packed
// documents.
std::vector<Values> batches_of(const Case& c) {
  std::vector<Values> batches = {batch_of(2, 21), batch_of(1, 1), batch_of(3, 16), batch_of(1, 50)};
  if (c.name == "gpt2") return batches;
  at::Tensor positions = at::arange(18, at::kLong).repeat({2, 1});
  positions[0].slice(0, 5).sub_(5);
  positions[1].slice(0, 11).sub_(11);
  batches.push_back(batch_of(2, 18));
  batches.back().set("position_ids", positions);
  return batches;
}

void expect_near_float64(Models& models, const Values& batch, const std::string& what) {
  const Computed exact = run(models.exact, batch), fused = run(models.fused, batch);
  ASSERT_EQ(fused.gradients.size(), exact.gradients.size());
  double largest = 0;
  for (const auto& [name, gradient] : exact.gradients)
    largest = std::max(largest, gradient.norm().item<double>());
  EXPECT_LE(distance(fused.logits, exact.logits), 1e-5 * exact.logits.norm().item<double>())
      << what;
  for (const auto& [name, gradient] : exact.gradients) {
    ASSERT_TRUE(fused.gradients.at(name).defined()) << what << " " << name;
    EXPECT_LE(distance(fused.gradients.at(name), gradient),
              2e-5 * gradient.norm().item<double>() + 2e-6 * largest)
        << what << " " << name;
  }
}

TEST(FusedTest, EveryFamilyComputesWhatFloat64Computes) {
  for (const Case& c : cases()) {
    Models models(c.config);
    for (const Values& batch : batches_of(c)) expect_near_float64(models, batch, c.name);
  }
}

TEST(FusedTest, AMaskTakesThePlainOperators) {
  Models models(cases().front().config);
  Values batch = batch_of(2, 9);
  at::Tensor mask = at::ones({2, 9}, at::kLong);
  mask[1].narrow(0, 0, 3).zero_();
  batch.set("attention_mask", mask);
  expect_near_float64(models, batch, "a mask");
}

// One seed is one sample of the distribution of rounding errors, and another instruction set gives
// another sample. So the test compares distances over this many seeds.
constexpr std::uint64_t kSeeds = 32;

TEST(FusedAccuracyTest, EveryFamilyIsAsNearToFloat64AsItsPlainOperators) {
  for (const Case& c : cases()) {
    const std::vector<Values> batches = batches_of(c);
    Errors logits, gradients;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      Models models(c.config, seed);
      const Values& batch = batches[seed % batches.size()];
      const Computed exact = run(models.exact, batch), plain = run(models.plain, batch),
                     fused = run(models.fused, batch);
      logits.add(fused.logits, plain.logits, exact.logits);
      for (const auto& [name, gradient] : exact.gradients)
        gradients.add(fused.gradients.at(name), plain.gradients.at(name), gradient);
    }
    logits.expect_alike(c.name + " logits");
    gradients.expect_alike(c.name + " gradients");
  }
}

// Each of these gradients is a sum over all rows.
TEST(FusedAccuracyTest, GradientsOfBiasesAndNormsAreEachAsNearToFloat64AsPlainOnes) {
  for (const Case& c : cases()) {
    if (c.name != "llama with biases" && c.name != "qwen3" && c.name != "gpt_neox") continue;
    const Values batch = batch_of(4, 128);
    std::map<std::string, Errors> errors;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      Models models(c.config, seed);
      const auto exact = run(models.exact, batch), plain = run(models.plain, batch),
                 fused = run(models.fused, batch);
      for (const auto& [name, gradient] : exact.gradients) {
        if (gradient.dim() == 1)
          errors[name].add(fused.gradients.at(name), plain.gradients.at(name), gradient);
      }
    }
    EXPECT_GE(errors.size(), 5U) << c.name;
    for (const auto& [name, of_name] : errors) of_name.expect_alike(c.name + " " + name);
  }
}

TEST(FusedTest, EvaluationWithoutAGraphHasTheSameBits) {
  for (const Case& c : cases()) {
    ChunkChain model(parse_model_spec(c.config, "config.json"), {});
    model.initialize(3);
    const at::Tensor with_graph = model.forward(batch_of(2, 13)).get("logits").detach();
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(model.forward(batch_of(2, 13)).get("logits"), with_graph)) << c.name;
  }
}

// Calls expect(logits of a row alone, logits of the same row among others).
template <typename Expect>
void for_rows_alone(const Expect& expect) {
  ChunkChain model(parse_model_spec(cases().front().config, "config.json"), {});
  model.initialize(3);
  const at::NoGradGuard no_grad;
  const Values batch = batch_of(3, 14);
  const at::Tensor all = model.forward(batch).get("logits");
  for (int row = 0; row < 3; ++row) {
    const at::Tensor ids = batch.get("input_ids").narrow(0, row, 1);
    SCOPED_TRACE(row);
    expect(model.forward({{"input_ids", ids}, {"labels", ids}}).get("logits")[0], all[row]);
  }
}

TEST(FusedTest, RowsHaveTheSameNumbersUpToRoundingWhateverIsBesideThem) {
  for_rows_alone([](const at::Tensor& alone, const at::Tensor& matched_only_by_general_patterns) {
    EXPECT_TRUE(at::allclose(alone, matched_only_by_general_patterns, 1e-5, 1e-5));
  });
}

TEST(FusedTest, WithOwnProductsRowsHaveTheSameBitsWhateverIsBesideThem) {
  SLUICE_NEEDS_OWN_PRODUCTS();
  for_rows_alone([](const at::Tensor& alone, const at::Tensor& matched_only_by_general_patterns) {
    EXPECT_TRUE(at::equal(alone, matched_only_by_general_patterns));
  });
}

TEST(FusedTest, AWeightThatIsNotContiguousIsRefused) {
  ChunkChain model(parse_model_spec(cases().front().config, "config.json"), {});
  model.initialize(3);
  for (at::Tensor parameter : parameters_of(model)) {
    if (parameter.dim() == 2 && parameter.size(0) != 67)
      parameter.set_data(parameter.detach().t().contiguous().t());
  }
  const Error error = test::error_of([&] { model.forward(batch_of(1, 8)); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(std::string(error.what()).find("is not contiguous"), std::string::npos) << error.what();
}

TEST(FusedTest, AWeightWrittenToBetweenForwardAndBackwardIsRefused) {
  ChunkChain model(parse_model_spec(cases().front().config, "config.json"), {});
  model.initialize(3);
  const at::Tensor logits = model.forward(batch_of(1, 8)).get("logits");
  {
    const at::NoGradGuard no_grad;
    parameters_of(model)[2].add_(1);
  }
  EXPECT_THROW(logits.sum().backward(), Error);
}

TEST(FusedTest, ASecondBackwardAndAnInputWrittenToAreRefused) {
  ChunkChain model(parse_model_spec(cases().front().config, "config.json"), {1});
  model.initialize(3);
  const at::Tensor logits = model.forward(batch_of(1, 8)).get("logits");
  logits.sum().backward({}, /*retain_graph=*/true);
  EXPECT_THROW(logits.sum().backward(), Error);

  const at::Tensor again = model.forward(batch_of(1, 8)).get("logits");
  {
    const at::NoGradGuard no_grad;
    at::Tensor entered = model.inputs()[1].begin()->second;
    entered.add_(1);
  }
  EXPECT_THROW(again.sum().backward(), Error);
}

TEST(FusedTest, SeveralThreadsComputeTheSameLossAndGradients) {
  ChunkChain model(parse_model_spec(cases().front().config, "config.json"), {});
  model.initialize(3);
  const Values batch = batch_of(1, 150);
  const Model whole = causal_lm(parse_model_spec(cases().front().config, "c"));
  const auto losses = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor loss = whole.loss(model.forward(batch), batch).loss;
    loss.backward();
    std::map<std::string, at::Tensor> gradients = model.gradients();
    for (auto& [name, gradient] : gradients) gradient = gradient.clone();
    model.clear_gradients();
    at::set_num_threads(1);
    return std::pair(loss.detach(), gradients);
  };
  const auto [loss, gradients] = losses(1);
  for (const int threads : {2, 3}) {
    const auto [other, other_gradients] = losses(threads);
    EXPECT_TRUE(at::allclose(other, loss, 1e-6)) << other << loss;
    for (const auto& [name, gradient] : gradients)
      EXPECT_LE((other_gradients.at(name) - gradient).norm().item<double>(),
                1e-5 * gradient.norm().item<double>() + 1e-7)
          << name;
  }
}

TEST(FusedTest, TheLossAndItsGradientAreThoseOfThePlainOne) {
  const Model fused = causal_lm(parse_model_spec(cases().front().config, "c"), {.fused = true}),
              plain = causal_lm(parse_model_spec(cases().front().config, "c"), {.fused = false});
  at::Tensor labels = (at::arange(14, at::kLong) * 5).remainder(67).view({2, 7});
  labels[0][2] = -100;
  const at::Tensor numbers = at::sin(at::arange(2 * 7 * 67).to(at::kFloat) * 0.7) * 4;
  const auto loss = [&](const Model& model) {
    const at::Tensor leaf = numbers.clone().requires_grad_();
    const at::Tensor logits = (leaf * 1.0).view({2, 7, 67});
    const LossValue value = model.loss({{"logits", logits}}, {{"labels", labels}});
    (value.loss * 0.25).backward();
    EXPECT_EQ(value.count, 11);
    return std::pair(value.loss.detach(), leaf.grad());
  };
  const auto [found, gradient] = loss(fused);
  const auto [expected, expected_gradient] = loss(plain);
  EXPECT_TRUE(at::allclose(found, expected, 1e-6)) << found << expected;
  EXPECT_TRUE(at::allclose(gradient, expected_gradient, 1e-5, 1e-7));
}

// With fused off, the head that computes the loss uses plain operators on all logits.
TEST(FusedTest, HeadsThatComputeTheLossGiveTheGradientsOfWholeLogits) {
  for (const Case& c : cases()) {
    Models models(c.config);
    const ModelSpec spec =
        parse_model_spec(c.config, "config.json", {.loss_chunks = LossChunks::kOn});
    Values batch = batch_of(2, 21);
    batch.set("labels", batch.get("labels").clone());
    batch.get("labels")[1].narrow(0, 3, 9).fill_(kIgnoredLabel);
    const auto whole = [&] {
      const at::Tensor loss = causal_lm_loss(models.plain.forward(batch), batch).loss;
      models.plain.backward(loss * 0.25);
      return loss.item<double>();
    };
    const double expected = whole();
    const auto gradients = models.plain.gradients();
    double largest = 0;
    for (const auto& [name, gradient] : gradients)
      largest = std::max(largest, gradient.norm().item<double>());
    for (const bool fused : {true, false}) {
      ChunkChain by_blocks(spec, {1}, {.fused = fused});
      {
        const at::NoGradGuard no_grad;
        const auto from = parameters_of(models.plain), to = parameters_of(by_blocks);
        for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
      }
      const Values outputs = by_blocks.forward(batch);
      EXPECT_FALSE(outputs.has("logits"));
      const LossValue found = causal_lm(spec).loss(outputs, batch);
      EXPECT_EQ(found.count, 31) << c.name;
      EXPECT_NEAR(found.loss.item<double>(), expected, 1e-6 * expected) << c.name;
      by_blocks.backward(found.loss * 0.25);
      const auto own = by_blocks.gradients();
      ASSERT_EQ(own.size(), gradients.size()) << c.name;
      for (const auto& [name, gradient] : gradients)
        EXPECT_LE((own.at(name) - gradient).norm().item<double>(),
                  1e-5 * gradient.norm().item<double>() + 2e-6 * largest)
            << c.name << " " << name << (fused ? " fused" : " plain");
    }
  }
}

TEST(FusedTest, HeadsThatComputeTheLossRefuseLabelsOutsideOfTheVocabulary) {
  ChunkChain model(parse_model_spec(cases().front().config, "c", {.loss_chunks = LossChunks::kOn}),
                   {});
  model.initialize(3);
  Values batch = batch_of(1, 4);
  for (const std::int64_t label : {67, -1}) {
    batch.set("labels", at::full({1, 4}, label, at::kLong));
    EXPECT_THROW(model.forward(batch), Error) << label;
  }
}

}  // namespace
}  // namespace sluice::testing
