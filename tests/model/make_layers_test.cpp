#include <gtest/gtest.h>

#include <c10/core/InferenceMode.h>

#include <cmath>

#include "layer/initialize_chunks.h"
#include "model/families.h"
#include "model/support.h"
#include "sluice/error.h"
#include "support/relative_distance.h"

namespace sluice {
namespace {

using test::relative_distance;
using testing::ChunkChain;

constexpr double kRounding = 1e-5;  // bound of relative_distance() in float32

const std::vector<std::string> kModels = {"models/llama_untied",
                                          "models/llama_tied",
                                          "models/gpt2",
                                          "models_extra/grouped_query",
                                          "models_extra/wide_heads",
                                          "models_extra/biases",
                                          "models_extra/llama3_rope",
                                          "models_extra/tied_with_padding",
                                          "models_extra/gpt2_untied_inner",
                                          "models_extra/qwen2",
                                          "models_extra/qwen2_tied",
                                          "models_extra/mistral",
                                          "models_extra/qwen2_windows",
                                          "models_extra/qwen3_windows",
                                          "models_extra/mixtral_balance",
                                          "models_extra/qwen3_moe_some",
                                          "models_extra/gpt_neox",
                                          "models_extra/gpt_neox_tied",
                                          "models_extra/phi3_window",
                                          "models_extra/starcoder2",
                                          "models_extra/gemma2",
                                          "models_extra/gemma3",
                                          "models_extra/olmo2",
                                          "models_extra/granite",
                                          "models_extra/smollm3"};

ModelSpec spec_of(const std::string& model) {
  return read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/" + model);
}

ModelSpec spec_with(const std::string& model, const std::string& key, const nlohmann::json& value) {
  nlohmann::json config = nlohmann::json::parse(spec_of(model).config_text);
  config[key] = value;
  return parse_model_spec(config.dump(), "config.json");
}

Values batch_of(std::int64_t rows, std::int64_t length, std::int64_t vocab) {
  const at::Tensor ids =
      at::arange(rows * length, at::kLong).mul(7).remainder(vocab).view({rows, length});
  return {{"input_ids", ids}, {"labels", ids}, {"attention_mask", {}}, {"position_ids", {}}};
}

std::vector<int> every_cut(const ModelSpec& spec) {
  std::vector<int> cuts;
  for (int i = 1; i < static_cast<int>(spec.layers.size()); ++i) cuts.push_back(i);
  return cuts;
}

TEST(MakeLayersTest, EveryFamilyThatThePlanKnowsHasModulesAndNoOther) {
  std::vector<std::string> planned, made;
  for (const detail::Family& family : detail::families()) planned.push_back(family.name);
  for (const detail::FamilyModules& family : detail::family_modules()) made.push_back(family.name);
  EXPECT_EQ(made, planned);
}

TEST(MakeLayersTest, ParametersAreThoseOfTheModelSpecInItsOrder) {
  for (const std::string& model : kModels) {
    const ModelSpec spec = spec_of(model);
    ChunkChain chain(spec, every_cut(spec));
    for (std::size_t i = 0; i < spec.layers.size(); ++i) {
      const std::vector<ParameterInfo>& found = chain.chunks()[i].parameters();
      const std::vector<ParameterSpec>& expected = spec.layers[i].parameters;
      ASSERT_EQ(found.size(), expected.size()) << model << " " << spec.layers[i].name;
      for (std::size_t k = 0; k < found.size(); ++k) {
        EXPECT_EQ(found[k].name, expected[k].name) << model;
        EXPECT_EQ(found[k].global_shape, expected[k].shape) << found[k].name;
        EXPECT_EQ(found[k].tied_to, expected[k].tied_to) << found[k].name;
        EXPECT_EQ(found[k].layer, static_cast<int>(i)) << found[k].name;
      }
    }
  }
}

TEST(MakeLayersTest, ShapeFunctionsTellWhatForwardGives) {
  for (const std::string& model : kModels) {
    const ModelSpec spec = spec_of(model);
    ChunkChain chain(spec, every_cut(spec));
    chain.initialize(1);
    const Values batch = batch_of(2, 5, spec.vocab_size);
    chain.forward(batch);
    std::vector<TensorMeta> metas;
    for (std::size_t i = 0; i < chain.chunks().size(); ++i) {
      metas = chain.chunks()[i].output_metas(metas, batch).value();
      ASSERT_EQ(metas.size(), 1u);
      EXPECT_EQ(metas[0], meta_of((*chain.outputs()[i].begin()).second))
          << model << " " << spec.layers[i].name;
    }
  }
}

TEST(MakeLayersTest, InitialWeightsAreTheSameBitsWholeAndByLayer) {
  for (const std::string& model : kModels) {
    const ModelSpec spec = spec_of(model);
    ChunkChain whole(spec, {}), cut(spec, every_cut(spec)), other_seed(spec, {});
    whole.initialize(5);
    cut.initialize(5);
    other_seed.initialize(6);
    std::size_t index = 0;
    for (Chunk& chunk : cut.chunks()) {
      for (const ParameterInfo& parameter : chunk.parameters()) {
        const ParameterInfo& same = whole.chunks()[0].parameters()[index];
        EXPECT_TRUE(at::equal(parameter.tensor, same.tensor)) << model << " " << parameter.name;
        if (parameter.tensor.dim() == 2) {
          EXPECT_FALSE(
              at::equal(parameter.tensor, other_seed.chunks()[0].parameters()[index].tensor))
              << parameter.name;
        }
        ++index;
      }
    }
  }
}

TEST(MakeLayersTest, InitialWeightsHaveHuggingFacesDistributions) {
  for (const std::string model : {"models/llama_untied", "models/gpt2", "models_extra/biases",
                                  "models_extra/qwen3_biases_tied", "models_extra/gemma2",
                                  "models_extra/gemma3", "models_extra/olmo2"}) {
    const ModelSpec spec = spec_of(model);
    const nlohmann::json config = nlohmann::json::parse(spec.config_text);
    const double range = config.value("initializer_range", 0.02);
    ChunkChain chain(spec, {});
    chain.initialize(5);
    for (const ParameterInfo& parameter : chain.chunks()[0].parameters()) {
      const at::Tensor value = parameter.tensor.detach().to(at::kDouble);
      if (parameter.name.ends_with("bias")) {
        EXPECT_TRUE(at::equal(value, at::zeros_like(value))) << parameter.name;
      } else if (value.dim() == 1) {
        const double initial = model.find("gemma") != std::string::npos ? 0.0 : 1.0;
        EXPECT_TRUE(at::equal(value, at::full_like(value, initial))) << parameter.name;
      } else {
        const double std = parameter.name.ends_with("c_proj.weight")
                               ? range / std::sqrt(2.0 * static_cast<double>(spec.num_blocks()))
                               : range;
        const bool pads = config.contains("pad_token_id") && config["pad_token_id"].is_number();
        const bool embeds = parameter.layer == 0 || !parameter.tied_to.empty();
        const double rows = pads && embeds ? 1.0 / static_cast<double>(value.size(0)) : 0;
        EXPECT_NEAR(value.pow(2).mean().item<double>() / (std * std), 1.0 - rows,
                    6 * std::sqrt(2.0 / static_cast<double>(value.numel())))
            << model << " " << parameter.name;
      }
    }
  }
}

TEST(MakeLayersTest, ThePaddingRowStartsAtZeroInEveryUseOfTheEmbedding) {
  const ModelSpec spec = spec_of("models_extra/tied_with_padding");
  ChunkChain chain(spec, {2});
  chain.initialize(5);
  for (const Chunk* chunk : {&chain.chunks()[0], &chain.chunks()[1]}) {
    for (const ParameterInfo& parameter : chunk->parameters()) {
      if (parameter.name != "model.embed_tokens.weight" && parameter.tied_to.empty()) continue;
      EXPECT_EQ(parameter.tensor.detach()[3].abs().sum().item<double>(), 0.0) << parameter.name;
      EXPECT_GT(parameter.tensor.detach()[2].abs().sum().item<double>(), 0.0) << parameter.name;
    }
  }
}

TEST(MakeLayersTest, DropoutFollowsTheKeyAndNotTheCuts) {
  nlohmann::json config = nlohmann::json::parse(spec_of("models/gpt2").config_text);
  config["resid_pdrop"] = config["embd_pdrop"] = config["attn_pdrop"] = 0.2;
  const ModelSpec gpt2 = parse_model_spec(config.dump(), "config.json");
  const ModelSpec llama = spec_with("models/llama_untied", "attention_dropout", 0.2);
  for (const ModelSpec& spec : {gpt2, llama}) {
    const Values batch = batch_of(2, 9, spec.vocab_size);
    ChunkChain whole(spec, {}), cut(spec, {1, 3});
    whole.initialize(5);
    cut.initialize(5);
    const auto logits = [&](ChunkChain& chain, std::int64_t step, std::int64_t microbatch) {
      return chain.forward(batch, 11, step, microbatch).get("logits").detach();
    };
    const at::Tensor expected = logits(whole, 1, 2);
    EXPECT_TRUE(at::equal(logits(cut, 1, 2), expected)) << spec.family;
    EXPECT_FALSE(at::equal(logits(cut, 1, 3), expected)) << spec.family;
    EXPECT_FALSE(at::equal(logits(cut, 2, 2), expected)) << spec.family;
    cut.train(false);
    whole.train(false);
    EXPECT_TRUE(at::equal(logits(cut, 1, 2), logits(whole, 7, 8))) << spec.family;
  }
}

TEST(MakeLayersTest, OneModelTakesSequencesOfAnyLengthInAnyOrder) {
  const ModelSpec spec = spec_of("models/llama_untied");
  ChunkChain chain(spec, {});
  chain.initialize(5);
  {
    const c10::InferenceMode evaluation;  // creates the rotary table in inference mode
    chain.forward(batch_of(1, 7, spec.vocab_size));
  }
  for (const std::int64_t length : {7, 40, 5}) {
    ChunkChain fresh(spec, {});
    fresh.initialize(5);
    const Values batch = batch_of(2, length, spec.vocab_size);
    const LossValue found = causal_lm_loss(chain.forward(batch), batch);
    EXPECT_TRUE(at::equal(found.loss, causal_lm_loss(fresh.forward(batch), batch).loss)) << length;
    chain.backward(found.loss);
  }
}

TEST(MakeLayersTest, ATokenDoesNotSeeLaterOnes) {
  for (const std::string& model : kModels) {
    const ModelSpec spec = spec_of(model);
    ChunkChain chain(spec, {});
    chain.initialize(5);
    Values batch = batch_of(1, 8, spec.vocab_size);
    const at::Tensor before = chain.forward(batch).get("logits").detach();
    at::Tensor changed = batch.get("input_ids").clone();
    changed[0][5] = 1;
    batch.set("input_ids", changed);
    const at::Tensor after = chain.forward(batch).get("logits").detach();
    EXPECT_LT(relative_distance(after.narrow(1, 0, 5), before.narrow(1, 0, 5)), kRounding) << model;
    EXPECT_GT(relative_distance(after.narrow(1, 5, 3), before.narrow(1, 5, 3)), 1e-2) << model;
  }
}

TEST(MakeLayersTest, AMaskThatHidesNothingAndUsualPositionsGiveTheSameBits) {
  for (const std::string& model : kModels) {
    const ModelSpec spec = spec_of(model);
    ChunkChain chain(spec, {});
    chain.initialize(5);
    Values batch = batch_of(2, 8, spec.vocab_size);
    const at::Tensor expected = chain.forward(batch).get("logits").detach();
    batch.set("attention_mask", at::ones({2, 8}, at::kLong));
    EXPECT_TRUE(at::equal(chain.forward(batch).get("logits"), expected)) << model;
    batch.set("position_ids", at::arange(8, at::kLong).repeat({2, 1}));
    EXPECT_TRUE(at::equal(chain.forward(batch).get("logits"), expected)) << model;
    batch.set("attention_mask", {});
    EXPECT_TRUE(at::equal(chain.forward(batch).get("logits"), expected)) << model;
  }
}

TEST(MakeLayersTest, PackedAndPaddedDocumentsGiveWhatTheyGiveAlone) {
  for (const std::string& model : kModels) {
    const ModelSpec spec = spec_of(model);
    ChunkChain chain(spec, {});
    chain.initialize(5);
    const at::Tensor ids = batch_of(1, 13, spec.vocab_size).get("input_ids");
    const auto logits = [&](std::int64_t begin, std::int64_t length, Values more) {
      more.set("input_ids", ids.narrow(1, begin, length));
      more.set("labels", ids.narrow(1, begin, length));
      return chain.forward(more).get("logits").detach();
    };
    const at::Tensor first = logits(0, 7, {}), second = logits(7, 6, {});
    const at::Tensor positions =
        at::cat({at::arange(7, at::kLong), at::arange(6, at::kLong)}).unsqueeze(0);
    const at::Tensor packed = logits(0, 13, {{"position_ids", positions}});
    EXPECT_LT(relative_distance(packed.narrow(1, 0, 7), first), kRounding) << model;
    EXPECT_LT(relative_distance(packed.narrow(1, 7, 6), second), kRounding) << model;
    at::Tensor mask = at::ones({1, 13}, at::kLong);
    mask.narrow(1, 0, 7).zero_();
    const at::Tensor padded =
        logits(0, 13, {{"attention_mask", mask}, {"position_ids", positions}});
    EXPECT_LT(relative_distance(padded.narrow(1, 7, 6), second), kRounding) << model;
    // If positions do not restart, the second document attends to the first.
    EXPECT_GT(relative_distance(logits(0, 13, {}).narrow(1, 7, 6), second), 1e-2) << model;
  }
}

TEST(MakeLayersTest, AWindowAsLongAsTheSequenceChangesNoBit) {
  const std::string model = "models_extra/mistral";
  const auto logits = [&](const nlohmann::json& window, std::int64_t length) {
    const ModelSpec spec = spec_with(model, "sliding_window", window);
    ChunkChain chain(spec, {});
    chain.initialize(5);
    return chain.forward(batch_of(1, length, spec.vocab_size)).get("logits").detach();
  };
  EXPECT_TRUE(at::equal(logits(8, 8), logits(nullptr, 8)));
  const at::Tensor longer = logits(8, 9);
  EXPECT_GT(relative_distance(longer, logits(nullptr, 9)), 1e-3);
  EXPECT_LT(relative_distance(longer.narrow(1, 0, 8), logits(nullptr, 8)), kRounding);
}

TEST(MakeLayersTest, HalfPrecisionStaysNearFloat) {
  const ModelSpec spec = spec_of("models_extra/grouped_query");
  const auto loss_of = [&](at::ScalarType dtype) {
    const std::vector<LayerSpec> layers = make_layers(spec, {dtype, at::kCPU});
    Chunk chunk(layers, 0, {}, {"logits"});
    initialize_parameters(chunk, 5);
    const Values batch = batch_of(2, 8, spec.vocab_size);
    const Values outputs = chunk.forward({}, batch, 0, 1, 0);
    EXPECT_EQ(outputs.get("logits").scalar_type(), dtype);
    EXPECT_EQ(chunk.output_metas({}, batch)->at(0).dtype, dtype);
    const LossValue loss = causal_lm_loss(outputs, batch);
    EXPECT_EQ(loss.loss.scalar_type(), at::kFloat);
    loss.loss.backward();
    for (const ParameterInfo& parameter : chunk.parameters())
      EXPECT_TRUE(parameter.tensor.grad().defined());
    return loss.loss.item<double>() / static_cast<double>(loss.count);
  };
  EXPECT_NEAR(loss_of(at::kBFloat16), loss_of(at::kFloat), 2e-2);
  EXPECT_NEAR(loss_of(at::kHalf), loss_of(at::kFloat), 2e-3);
}

TEST(MakeLayersTest, RefusesWhatTheModelCannotTake) {
  const auto message_of = [](const ModelSpec& spec, const Values& batch) -> std::string {
    ChunkChain chain(spec, {});
    chain.initialize(5);
    try {
      causal_lm_loss(chain.forward(batch), batch);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const ModelSpec gpt2 = spec_of("models/gpt2");
  EXPECT_EQ(message_of(gpt2, batch_of(1, 65, 256)),
            "sequences have 65 tokens, but the model has 64 positions; transformer.wpe; lower "
            "`seq_len`");
  Values batch = batch_of(1, 4, 256);
  batch.set("input_ids", at::full({1, 4}, 256, at::kLong));
  EXPECT_EQ(message_of(gpt2, batch),
            "token ids reach from 256 to 256, but the embedding has 256 rows; input_ids; use the "
            "tokenizer of this model");
  batch = batch_of(1, 4, 256);
  batch.set("labels", at::full({1, 4}, 300, at::kLong));
  EXPECT_NE(message_of(gpt2, batch)
                .find("labels reach from 300 to 300, but the vocabulary has 256 tokens"),
            std::string::npos);
  ModelSpec unknown = gpt2;
  unknown.family = "lama";
  try {
    make_layers(unknown);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "model family 'lama' has no modules; model_type; did you mean 'llama'?");
  }
}

}  // namespace
}  // namespace sluice
