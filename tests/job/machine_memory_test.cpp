#include "job/machine_memory.h"

#include <gtest/gtest.h>

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

TEST(MachineMemoryTest, CountsWeightsGradientsOptimizerAndTheLogitsOfAMicrobatch) {
  const Plan plan = make_plan(config("SGD"));
  const std::int64_t parameters = plan.model.num_parameters(), logits = 2 * 32 * 256 * 4;
  EXPECT_EQ(least_memory_bytes(config("SGD"), plan), 2 * 4 * parameters + logits);
  EXPECT_EQ(least_memory_bytes(config("AdamW"), make_plan(config("AdamW"))),
            4 * 4 * parameters + logits);
}

TEST(MachineMemoryTest, RefusesWhatCannotFit) {
  const RunConfig run = config("AdamW");
  const Plan plan = make_plan(run);
  const std::int64_t needed = least_memory_bytes(run, plan);
  require_memory(run, plan, needed);
  const Error error = test::error_of([&] { require_memory(run, plan, needed - 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kMemory);
  EXPECT_EQ(error.where().rfind("all 2 ranks together; this machine has ", 0), 0u) << error.what();
  EXPECT_NE(error.remedy().find("SGD"), std::string::npos);
}

TEST(MachineMemoryTest, ThisMachineHasSome) {
  EXPECT_GT(machine_memory_bytes(), std::int64_t{64} << 20);
}

}  // namespace
}  // namespace sluice
