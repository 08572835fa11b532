#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/text.h"
#include "sluice/causal_lm.h"
#include "sluice/model_spec.h"
#include "sluice/parts/observers.h"
#include "sluice/parts/stage.h"
#include "sluice/plan.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

constexpr const char* kLlama70b = R"({"model_type": "llama", "vocab_size": 128256,
  "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
  "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 131072,
  "rope_theta": 500000.0, "tie_word_embeddings": false})";

ModelSpec llama_70b() {
  const test::TempDirectory folder;
  test::write_file(folder / "config.json", kLlama70b);
  return read_model_spec(folder.str(), {.parameters = "bfloat16"});
}

// "VmHWM": peak memory of this process. "VmRSS": current memory.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == key + ":" && status >> kilobytes) return kilobytes * 1024;
  }
  return -1;
}

TEST(LargeModelTest, TheStagesOfARankAreMadeInMegabytesWithTheNamesAndShapesOfThePlan) {
  std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak
  const std::int64_t before = status_bytes("VmRSS");
  ASSERT_GT(before, 0);
  PipelineOptions options = {
      .num_ranks = 16, .schedule = "Interleaved1F1B", .num_microbatches = 64, .seq_len = 8192};
  options.partition.stages_per_rank = 5;
  const Plan plan = plan_pipeline(llama_70b(), options);
  EXPECT_GT(plan.model.num_parameters(), 70'000'000'000);
  const Model model = causal_lm(plan.model, {.dtype = at::kBFloat16, .device = at::kMeta});

  MemoryLedger ledger(1);
  const MemoryLedger::Scope scope(ledger, 0);
  for (const int rank : {0, 7, 15}) {
    const RankStages stages = build_stages(model, plan.partition, rank);
    ASSERT_EQ(stages.stages().size(), 5u);
    std::int64_t bytes = 0;
    for (const auto& stage : stages.stages()) {
      std::vector<std::string> expected, found;
      for (const int layer : plan.partition.stages[stage->index()].layers) {
        for (const ParameterSpec& parameter : plan.model.layers[layer].parameters)
          expected.push_back(parameter.name + shape_text(parameter.shape));
      }
      for (const ParameterInfo& info : stage->parameters()) {
        found.push_back(info.name + shape_text(info.global_shape));
        EXPECT_TRUE(info.tensor.is_meta()) << info.name;
        EXPECT_EQ(info.tensor.scalar_type(), at::kBFloat16) << info.name;
        EXPECT_EQ(info.tensor.sizes(), at::IntArrayRef(info.global_shape)) << info.name;
        bytes += static_cast<std::int64_t>(info.tensor.nbytes());
      }
      std::sort(expected.begin(), expected.end());
      std::sort(found.begin(), found.end());
      EXPECT_EQ(found, expected) << "stage " << stage->index();
    }
    EXPECT_EQ(bytes, plan.ranks[rank].memory.parameter_bytes);
    EXPECT_GT(bytes, std::int64_t{7} << 30);
  }
  EXPECT_EQ(ledger.peak_bytes(0), 0);
  EXPECT_LT(status_bytes("VmHWM") - before, std::int64_t{300} << 20);
}

}  // namespace
}  // namespace sluice
