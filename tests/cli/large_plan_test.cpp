// `sluice plan` for a Llama of 70 billion parameters on 16 ranks must be small and fast.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/run_program.h"

namespace sluice::testing {
namespace {

TEST(LargePlanTest, APlanOf70BillionParametersTakesMegabytes) {
  const test::TempDirectory folder;
  test::write_file(folder / "config.json",
                   R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 8192,
  "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
  "num_key_value_heads": 8, "max_position_embeddings": 131072, "rope_theta": 500000.0})");
  test::write_file(folder / "run.toml", R"([model]
config = "config.json"
dtype = "bfloat16"
[training]
seq_len = 8192
local_batch_size = 64
[parallelism]
pipeline_parallel_degree = 16
pipeline_parallel_stages_per_rank = 5
)");
  const std::string config = folder / "run.toml", out = folder / "out";
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen(out.c_str(), "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(127);
    execl(SLUICE_PROGRAM, "sluice", "plan", config.c_str(), "--json", nullptr);
    _exit(127);
  }
  int status = 0;
  struct rusage usage {};
  ASSERT_EQ(wait4(child, &status, 0, &usage), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << test::read_file(out);
  EXPECT_LT(usage.ru_maxrss, 200 * 1024);  // in KiB
  const auto plan = nlohmann::json::parse(test::read_file(out));
  EXPECT_GT(plan["model"]["parameters"].get<std::int64_t>(), 70'000'000'000);
  EXPECT_EQ(plan["split"]["num_stages"], 80);
  EXPECT_EQ(plan["memory"].size(), 16u);
  EXPECT_EQ(plan["check"]["ok"], true);
}

}  // namespace
}  // namespace sluice::testing
