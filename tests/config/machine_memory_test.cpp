#include "config/machine_memory.h"

#include <gtest/gtest.h>

#include "config/run_config.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

RunConfig config(const std::string& optimizer) {
  return load_run_config(
      "",
      {{"model.config", SLUICE_TEST_DATA "/reference/models/llama_untied/config.json"},
       {"parallelism.pipeline_parallel_degree", "2"},
       {"training.local_batch_size", "4"},
       {"training.microbatch_size", "2"},
       {"training.seq_len", "32"},
       {"optimizer.name", optimizer}},
      {});
}

std::int64_t peaks_of(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const RankPrediction& rank : plan.ranks) bytes += rank.memory.total_bytes();
  return bytes;
}

TEST(MachineMemoryTest, RefusesAPlanWhosePeaksDoNotFit) {
  const Plan plan = plan_of_config(config("AdamW"));
  const std::int64_t peaks = peaks_of(plan);
  EXPECT_FALSE(memory_shortage(plan, peaks));
  require_memory(plan, peaks);
  // The prediction may be 4 % too high, so slightly less memory is accepted.
  require_memory(plan, peaks * 97 / 100);
  const Error error = test::error_of([&] { require_memory(plan, peaks * 95 / 100); });
  EXPECT_EQ(error.kind(), ErrorKind::kMemory);
  EXPECT_EQ(error.where().rfind("all 2 ranks together; this machine has ", 0), 0u) << error.what();
  EXPECT_NE(error.remedy().find("SGD"), std::string::npos);
}

TEST(MachineMemoryTest, EveryReplicaCounts) {
  RunConfig run = config("SGD");
  run.parallelism.pipeline.data_parallel.degree = 3;
  const Plan plan = plan_of_config(run);
  EXPECT_FALSE(memory_shortage(plan, 3 * peaks_of(plan)));
  const std::optional<Error> shortage = memory_shortage(plan, 2 * peaks_of(plan));
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->where().rfind("all 6 ranks together; ", 0), 0u) << shortage->what();
}

TEST(MachineMemoryTest, MicrobatchesCountAsMuchAsWeights) {
  RunConfig run = config("SGD");
  run.training.microbatch_size = run.training.local_batch_size = 64;
  const Plan plan = plan_of_config(run);
  std::int64_t held = 0;
  for (const RankPrediction& rank : plan.ranks) held += rank.memory.held_bytes();
  ASSERT_GT(peaks_of(plan), 3 * held);
  EXPECT_TRUE(memory_shortage(plan, 2 * held));
}

TEST(MachineMemoryTest, TheCopyForCheckpointsCountsAndCanBeDoneWithout) {
  RunConfig run = config("AdamW");
  const std::int64_t without = peaks_of(plan_of_config(run));
  run.checkpoint.interval = 5;
  const Plan plan = plan_of_config(run);
  ASSERT_GT(peaks_of(plan), without * 5 / 4);
  const std::optional<Error> shortage = memory_shortage(plan, without);
  ASSERT_TRUE(shortage);
  EXPECT_NE(shortage->fact().find("optimizer with a copy for checkpoints and the rest"),
            std::string::npos)
      << shortage->what();
  EXPECT_NE(shortage->remedy().find("checkpoint.async = false"), std::string::npos);
}

TEST(MachineMemoryTest, SizesThatCannotBeCountedDoNotFit) {
  RunConfig run = config("SGD");
  run.training.microbatch_size = run.training.local_batch_size = 1 << 20;
  run.training.seq_len = 1 << 30;
  const Plan plan = plan_of_config(run);
  for (const RankPrediction& rank : plan.ranks)
    EXPECT_GT(rank.memory.total_bytes(), std::int64_t{1} << 60);
  EXPECT_TRUE(memory_shortage(plan, std::int64_t{1} << 50));
}

TEST(MachineMemoryTest, ThisMachineHasSome) {
  EXPECT_GT(machine_memory_bytes(), std::int64_t{64} << 20);
}

}  // namespace
}  // namespace sluice
