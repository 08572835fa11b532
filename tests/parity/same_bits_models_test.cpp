// Compares native model families with a plain loop, in every schedule and layout.
#include <gtest/gtest.h>

#include "sluice/causal_lm.h"
#include "sluice/model_spec.h"
#include "support/pipeline_harness.h"

namespace sluice::test {
namespace {

const char* const kGeneratedLlama = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 96, "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "attention_bias": true,
  "rope_theta": 10000.0, "hidden_act": "silu", "initializer_range": 0.1})";

const char* const kGeneratedQwen2 = R"({
  "model_type": "qwen2", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": true,
  "initializer_range": 0.1})";

std::string generated(const std::string& family, const std::string& more, int vocabulary = 96) {
  return R"({"model_type": ")" + family + R"(", "vocab_size": )" + std::to_string(vocabulary) +
         R"(, "hidden_size": 32,
    "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "pad_token_id": null, "initializer_range": 0.1, "sliding_window": 4)" +
         more + "}";
}
const char* const kGeneratedQwen3Moe = R"({
  "model_type": "qwen3_moe", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 40,
  "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "moe_intermediate_size": 24,
  "num_experts": 6, "num_experts_per_tok": 3, "norm_topk_prob": true, "mlp_only_layers": [1],
  "initializer_range": 0.1})";

ModelSpec spec_of(const std::string& name) {
  const std::string slides = R"(, "use_sliding_window": true, "max_window_layers": 2)";
  const std::vector<std::pair<std::string, std::string>> families = {
      {"mistral", ""},
      {"qwen3", slides},
      {"gemma2", R"(, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 8)"},
      {"gemma3_text", R"(, "sliding_window_pattern": 2, "query_pre_attn_scalar": 8)"},
      {"olmo2", ""},
      {"granite", R"(, "residual_multiplier": 0.5, "attention_multiplier": 0.3)"},
      {"smollm3", R"(, "use_sliding_window": true, "no_rope_layer_interval": 2)"}};
  for (const auto& [family, more] : families)
    if (name == family) return parse_model_spec(generated(family, more), family + ".json");
  // Models with the loss in blocks of the vocabulary. The vocabulary has two full blocks and a
  // partial one.
  const std::vector<std::pair<std::string, std::string>> by_blocks = {
      {"llama", ""},
      {"llama", R"(, "tie_word_embeddings": true)"},
      {"gemma2", R"(, "query_pre_attn_scalar": 8, "final_logit_softcapping": 3.0)"},
      {"granite", R"(, "logits_scaling": 4.0)"}};
  for (const auto& [family, more] : by_blocks) {
    if (name == family + more)
      return parse_model_spec(generated(family, more, 4196), family + ".json",
                              {.loss_chunks = LossChunks::kOn});
  }
  if (name == "generated_qwen2") return parse_model_spec(kGeneratedQwen2, "generated_qwen2.json");
  if (name == "generated_qwen3_moe")
    return parse_model_spec(kGeneratedQwen3Moe, "generated_qwen3_moe.json");
  if (name == "generated") return parse_model_spec(kGeneratedLlama, "generated.json");
  return read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models/" + name);
}

// Additional inputs of a batch. With kMasks, every third microbatch has no mask. With kPositions,
// rows have two documents, but one document in every third microbatch.
enum class Beside { kNothing, kMasks, kPositions };

at::Tensor beside(Beside what, int microbatch, const at::Tensor& ids) {
  const std::int64_t length = ids.size(1);
  if (what == Beside::kMasks) {
    if (microbatch % 3 == 2) return {};
    at::Tensor mask = at::ones_like(ids);
    mask[0].narrow(0, 0, 1 + microbatch % 3).zero_();
    return mask;
  }
  at::Tensor positions = at::arange(length, at::kLong).repeat({ids.size(0), 1});
  if (microbatch % 3 != 2) positions.slice(1, 2 + microbatch % 3).sub_(2 + microbatch % 3);
  return positions;
}

// Rows whose lengths differ between microbatches. Some labels are ignored.
std::vector<StepBatch> batches(int num_steps, int num_microbatches, int microbatch_size,
                               Beside what) {
  std::vector<StepBatch> steps;
  for (int k = 1; k <= num_steps; ++k) {
    StepBatch step;
    step.step = k;
    for (int m = 0; m < num_microbatches; ++m) {
      const std::int64_t length = 6 + (3 * m + k) % 5;
      at::Tensor ids =
          (at::arange(microbatch_size * length, at::kLong) * 7 + 13 * (m + k)).remainder(91);
      ids = ids.view({microbatch_size, length});
      at::Tensor labels = ids.clone();
      labels.slice(1, 0, 1 + m % 3).fill_(-100);
      const auto has = [&](Beside which) {
        return what == which ? beside(which, m, ids) : at::Tensor();
      };
      step.microbatches.push_back({{"input_ids", ids},
                                   {"labels", labels},
                                   {"attention_mask", has(Beside::kMasks)},
                                   {"position_ids", has(Beside::kPositions)}});
      step.counts.push_back(labels.slice(1, 1).ne(-100).sum().item<std::int64_t>());
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

struct Case {
  std::string model, schedule;
  int ranks, stages_per_rank, microbatch_size;
  Beside beside = Beside::kNothing;
  bool recompute = false;  // in the pipeline only
};

std::string text(const Case& c) {
  return c.model + " " + c.schedule + " ranks " + std::to_string(c.ranks) + " stages/rank " +
         std::to_string(c.stages_per_rank) + " microbatch size " +
         std::to_string(c.microbatch_size) + " beside " +
         std::to_string(static_cast<int>(c.beside)) + (c.recompute ? " running again" : "");
}

class SameBits {
 public:
  void expect(const Case& c) {
    constexpr int kBatch = 8, kSteps = 5;
    const int microbatches = kBatch / c.microbatch_size;
    const ModelSpec spec = spec_of(c.model);
    const Model model = causal_lm(spec);
    const auto steps = batches(kSteps, microbatches, c.microbatch_size, c.beside);
    HarnessOptions options;
    options.lr = 0.5;
    const Schedule schedule = make_schedule(c.schedule, {c.ranks, c.stages_per_rank, microbatches});
    const bool reverse = c.schedule == "LoopedBFS";
    const auto key = std::make_tuple(c.model, c.microbatch_size, reverse, c.beside);
    if (expected_.count(key) == 0) {
      std::vector<int> order;
      for (int m = 0; reverse && m < microbatches; ++m) order.push_back(microbatches - 1 - m);
      expected_[key] = train_in_one_loop(model, steps, options, order);
      EXPECT_LT(expected_[key].losses.back(), expected_[key].losses.front())
          << "nothing was learned";
    }
    Model in_pipeline = model;
    for (LayerSpec& layer : in_pipeline.layers) layer.recompute = c.recompute;
    const TrainedModel got = train_in_pipeline(
        in_pipeline, lowered(schedule, even_partition(model, schedule.stage_map).tie_groups), steps,
        options);
    for (const std::string& error : got.errors) ASSERT_EQ(error, "") << text(c);
    EXPECT_TRUE(same_bits(got, expected_[key])) << text(c);
    for (std::size_t stage = 0; stage < got.split.size(); ++stage)
      EXPECT_TRUE(got.split[stage]) << text(c);
  }

 private:
  std::map<std::tuple<std::string, int, bool, Beside>, TrainedModel> expected_;
};

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (const char* model : {"llama_untied", "llama_tied", "generated", "gpt2", "generated_qwen2",
                            "generated_qwen3_moe"}) {
    const int num_layers = static_cast<int>(spec_of(model).layers.size());
    for (const ScheduleInfo& info : schedule_table()) {
      for (int ranks : {1, 2, 4}) {
        for (int stages_per_rank : {1, 2, 3}) {
          for (int microbatch_size : {1, 2}) {
            try {
              const Schedule schedule =
                  make_schedule(info.name, {ranks, stages_per_rank, 8 / microbatch_size});
              if (schedule.num_stages() > num_layers) continue;
            } catch (const Error&) {
              continue;  // invalid combination
            }
            cases.push_back({model, info.name, ranks, stages_per_rank, microbatch_size});
          }
        }
      }
    }
  }
  return cases;
}

std::vector<Case> cases_of_families() {
  std::vector<Case> cases;
  for (const char* model :
       {"mistral", "qwen3", "gemma2", "gemma3_text", "olmo2", "granite", "smollm3", "gpt2"}) {
    for (const Beside beside : {Beside::kNothing, Beside::kMasks, Beside::kPositions}) {
      cases.push_back({model, "1F1B", 2, 1, 2, beside});
      cases.push_back({model, "ZBVZeroBubble", 2, 2, 2, beside});
      cases.push_back({model, "InterleavedZeroBubble", 2, 2, 2, beside, /*recompute=*/true});
    }
  }
  return cases;
}

TEST(SameBitsModelsTest, HoldsForEveryFamilyWithMasksAndDocuments) {
  SameBits same_bits;
  for (const Case& c : cases_of_families()) same_bits.expect(c);
}

TEST(SameBitsModelsTest, HoldsForASampleOfModelsSchedulesAndLayouts) {
  const std::vector<Case> cases = every_case();
  ASSERT_GT(cases.size(), 150u);
  SameBits same_bits;
  for (std::size_t i = 0; i < cases.size(); i += 7) same_bits.expect(cases[i]);
}

// GPipe and 1F1B run B. The zero-bubble schedules run I and W.
TEST(SameBitsModelsTest, HoldsForLossesByBlocksOfTheVocabulary) {
  SameBits same_bits;
  for (const char* model : {"llama", R"(llama, "tie_word_embeddings": true)",
                            R"(gemma2, "query_pre_attn_scalar": 8, "final_logit_softcapping": 3.0)",
                            R"(granite, "logits_scaling": 4.0)"}) {
    same_bits.expect({model, "GPipe", 1, 1, 2});
    same_bits.expect({model, "1F1B", 4, 1, 2});
    same_bits.expect({model, "ZBVZeroBubble", 2, 2, 2});
    same_bits.expect({model, "InterleavedZeroBubble", 2, 3, 1});
    same_bits.expect({model, "InterleavedZeroBubble", 2, 2, 2, Beside::kNothing, true});
  }
}

TEST(SlowSameBitsModelsTest, HoldsForEveryModelScheduleAndLayout) {
  SameBits same_bits;
  for (const Case& c : every_case()) same_bits.expect(c);
}

}  // namespace
}  // namespace sluice::test
