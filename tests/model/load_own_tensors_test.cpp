#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "checkpoint/rank_state.h"
#include "engine/rank_threads.h"
#include "io/hf_shards.h"
#include "sluice/causal_lm.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/saver.h"
#include "sluice/parts/stage.h"
#include "sluice/plan.h"
#include "support/bytes_read.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::test {
namespace {

constexpr int kRanks = 4;
constexpr std::uint64_t kDigits = 16;  // how much two printed counts may differ in length

class LoadOwnTensorsTest : public ::testing::Test {
 protected:
  LoadOwnTensorsTest()
      : plan_(plan_pipeline(read_model_spec(SLUICE_TEST_DATA "/reference/models/llama_untied"),
                            {.num_ranks = kRanks})),
        model_(causal_lm(plan_.model, {.device = at::kMeta})) {
    const auto transports = make_local_transports(kRanks);
    run_ranks(transports, 1, nullptr, [&](Transport& transport) {
      RankStages stages = stages_of(transport.rank());
      stages.draw_weights(5);
      SaveTarget target;
      target.path = directory();
      target.head.run = "0123456789abcdef";
      target.config_text = plan_.model.config_text;
      EXPECT_FALSE(save_checkpoint(target, state_of(stages.pointers()), transport.world()).error);
    });
  }

  // The stages have memory but no values yet.
  RankStages stages_of(int rank) const {
    RankStages stages = build_stages(model_, plan_.partition, rank);
    stages.to_empty(at::kCPU);
    return stages;
  }
  void load(const HfDirectory& directory, RankStages& stages) const {
    for (const auto& stage : stages.stages())
      load_parameters(directory, stage->parameters(), plan_.model);
  }
  std::string directory() const { return folder_ / "step-00000001"; }

  const TempDirectory folder_;
  const Plan plan_;
  const Model model_;
};

TEST_F(LoadOwnTensorsTest, ReadsAsManyBytesAsItsParametersHave) {
  // Reading the counter is itself counted, so subtract that.
  const std::uint64_t overhead_start = bytes_read_so_far();
  const std::uint64_t overhead = bytes_read_so_far() - overhead_start;
  const HfDirectory weights(directory());
  for (int rank = 0; rank < kRanks; ++rank) {
    RankStages stages = stages_of(rank);
    std::uint64_t own = 0;
    for (const ParameterInfo& info : stages.stages().front()->parameters())
      own += info.tensor.nbytes();
    ASSERT_GT(own, 0u);
    const std::uint64_t before = bytes_read_so_far();
    load(weights, stages);
    const std::uint64_t read = bytes_read_so_far() - before - overhead;
    EXPECT_GE(read + kDigits, own) << "rank " << rank;
    EXPECT_LE(read, own + kDigits) << "rank " << rank;
  }
}

TEST_F(LoadOwnTensorsTest, WhatIsBehindTheHeadersOfOtherShardsIsNeverTouched) {
  const HfDirectory weights(directory());
  RankStages whole = stages_of(1), own = stages_of(1);
  load(weights, whole);
  const std::string kept =
      weights.shards().locate(own.stages().front()->parameters().front().name).file->path();
  int cut = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory())) {
    if (entry.path().extension() != ".safetensors" || entry.path() == kept) continue;
    std::uint64_t header = 0;
    std::ifstream(entry.path(), std::ios::binary)
        .read(reinterpret_cast<char*>(&header), sizeof header);
    std::filesystem::resize_file(entry.path(), sizeof header + header);
    ++cut;
  }
  ASSERT_EQ(cut, kRanks - 1);
  load(weights, own);
  for (std::size_t i = 0; i < own.stages().front()->parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(own.stages().front()->parameters()[i].tensor,
                          whole.stages().front()->parameters()[i].tensor));
  }
  RankStages other = stages_of(2);
  EXPECT_EQ(error_of([&] { load(weights, other); }).kind(), ErrorKind::kInput);
}

TEST_F(LoadOwnTensorsTest, ParametersWithoutMemoryAreNotLoadedInto) {
  RankStages stages = build_stages(model_, plan_.partition, 0);
  const HfDirectory weights(directory());
  const Error error = error_of([&] { load(weights, stages); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(error.remedy().find("RankStages::to_empty"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace sluice::test
