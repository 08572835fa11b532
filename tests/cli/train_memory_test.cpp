// The memory that `sluice plan` predicts beside what `sluice train` measures.
#include "train_fixture.h"

namespace sluice::testing {
namespace {

// head_dim 40 is none that fused attention takes.
std::string llama(int heads, const std::string& attention_dropout) {
  return R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 256,
    "hidden_size": 240, "intermediate_size": 640, "num_hidden_layers": 4,
    "num_attention_heads": )" +
         std::to_string(heads) + R"(, "num_key_value_heads": 3, "max_position_embeddings": 128,
    "attention_dropout": )" +
         attention_dropout + "}";
}

const std::string kLlama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "vocab_size": 256, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4,
  "num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
  "tie_word_embeddings": false})";

std::string gpt2(const std::string& attention_dropout, const std::string& residual_dropout) {
  return R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256,
    "n_positions": 128, "n_embd": 192, "n_layer": 4, "n_head": 6, "activation_function": "gelu_new",
    "embd_pdrop": 0.0, "attn_pdrop": )" +
         attention_dropout + R"(, "resid_pdrop": )" + residual_dropout + "}";
}

std::string gpt_neox(const std::string& attention_dropout, const std::string& hidden_dropout) {
  return R"({"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "vocab_size": 256,
    "hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 4, "num_attention_heads": 6,
    "max_position_embeddings": 128, "hidden_act": "gelu", "rotary_pct": 0.25,
    "attention_dropout": )" +
         attention_dropout + R"(, "hidden_dropout": )" + hidden_dropout + "}";
}

struct MemoryCase {
  std::string name;
  std::vector<std::string> options;
  std::string model = kLlama;
};
std::string name_of(const ::testing::TestParamInfo<MemoryCase>& info) { return info.param.name; }

const std::vector<std::string> kTwoReplicas = {"--parallelism.data_parallel_degree=2",
                                               "--training.local_batch_size=4"};

std::vector<std::string> mixed(std::vector<std::string> more) {
  more.emplace_back("--training.mixed_precision=bfloat16");
  return more;
}

std::vector<std::string> replicated(std::vector<std::string> more) {
  more.insert(more.begin(), kTwoReplicas.begin(), kTwoReplicas.end());
  return more;
}

// A model whose weights and activations are larger than a message that is under way.
class SlowTrainMemoryTest : public TrainCommandTest,
                            public ::testing::WithParamInterface<MemoryCase> {
 protected:
  SlowTrainMemoryTest() { test::write_file(model_, GetParam().model); }

  std::vector<std::string> options(const std::string& fused) const {
    std::vector<std::string> all = {"--model.path=",
                                    "--model.config=" + model_,
                                    "--data.tokenizer=bytes",
                                    "--training.seq_len=128",
                                    "--training.microbatch_size=1",
                                    "--training.local_batch_size=8",
                                    "--training.fused=" + fused};
    all.insert(all.end(), GetParam().options.begin(), GetParam().options.end());
    return all;
  }

  const std::string model_ = folder_ / "config.json";
};

TEST_P(SlowTrainMemoryTest, PredictsThePeakOfEveryRankFusedAndPlain) {
  for (const std::string fused : {"auto", "off"}) {
    const ProgramResult result = train_anew(options(fused));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> planned = {"plan", config(), "--json"};
    for (const std::string& option : options(fused)) planned.push_back(option);
    const auto memory = nlohmann::json::parse(run_sluice(planned).out).at("memory");
    std::vector<double> measured;
    for (const nlohmann::json& line : metrics()) {
      const auto bytes = line.at("memory_bytes").get<std::vector<double>>();
      measured.resize(bytes.size());
      for (std::size_t rank = 0; rank < bytes.size(); ++rank)
        measured[rank] = std::max(measured[rank], bytes[rank]);
    }
    const std::size_t replicas = measured.size() / memory.size();
    for (std::size_t rank = 0; rank < measured.size(); ++rank) {
      const auto predicted = memory[rank / replicas].at("total_bytes").get<double>();
      EXPECT_NEAR(measured[rank] / predicted, 1, 0.04) << fused << ", rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, SlowTrainMemoryTest,
    ::testing::Values(
        MemoryCase{"Replicas", replicated({"--parallelism.pipeline_parallel_degree=1"})},
        MemoryCase{"ReplicasOfPipelines", replicated({})},
        MemoryCase{"ReplicasOfSeveralShards", replicated({"--parallelism.data_parallel_shards=4"})},
        MemoryCase{"ShardedOptimizer", replicated({"--parallelism.pipeline_parallel_degree=1",
                                                   "--parallelism.zero1=true"})},
        MemoryCase{"ShardedOptimizerOfAZeroBubbleSchedule",
                   replicated({"--parallelism.pipeline_parallel_schedule=ZBVZeroBubble",
                               "--parallelism.zero1=true"})},
        MemoryCase{"ShardedParameters", replicated({"--parallelism.pipeline_parallel_degree=1",
                                                    "--parallelism.zero3=true"})},
        MemoryCase{"ShardedParametersOfSeveralStages",
                   replicated({"--parallelism.pipeline_parallel_schedule=Interleaved1F1B",
                               "--parallelism.zero3=true"})},
        MemoryCase{"ZeroBubble", {"--parallelism.pipeline_parallel_schedule=ZBVZeroBubble"}},
        MemoryCase{"MixedPrecision", mixed({})},
        MemoryCase{"MixedPrecisionOfLayersThatRunTwice",
                   mixed({"--training.activation_checkpoint=full"})},
        MemoryCase{"MixedPrecisionOfShardedParameters",
                   mixed(replicated({"--parallelism.pipeline_parallel_schedule=Interleaved1F1B",
                                     "--parallelism.zero3=true"}))},
        MemoryCase{"DropoutOfAttention", {}, llama(15, "0.1")},
        MemoryCase{"HeadsThatFusedAttentionDoesNotTake", {}, llama(6, "0.0")},
        MemoryCase{"Gpt2", {}, gpt2("0.0", "0.0")},
        MemoryCase{"Gpt2WithDropoutOfAttention", {}, gpt2("0.1", "0.0")},
        MemoryCase{"Gpt2WithDropoutOfResiduals", {}, gpt2("0.0", "0.1")},
        MemoryCase{"GptNeoxWithDropoutOfAttention", {}, gpt_neox("0.1", "0.0")},
        MemoryCase{"GptNeoxWithDropoutOfHidden", {}, gpt_neox("0.0", "0.1")}),
    name_of);

}  // namespace
}  // namespace sluice::testing
