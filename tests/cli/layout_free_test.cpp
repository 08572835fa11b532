// Trains the quickstart's model with training.layout_free = 8 in every layout.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class LayoutFreeRunTest : public TrainCommandTest {
 protected:
  LayoutFreeRunTest() {
    write_config("config = \"" SLUICE_TEST_DATA "/../examples/quickstart-model/config.json\"",
                 "global_batch_size = 16\nlayout_free = 8", R"(report = false
[comm]
heartbeat_seconds = 60
)");
  }

  std::string bits_of(int pp, int dp, int tp, const std::string& sharding) const {
    Options options = layout(pp, dp, tp);
    if (!sharding.empty()) options.push_back("--parallelism." + sharding + "=true");
    const ProgramResult result = train_anew(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? numbers() : "";
  }

  void expect_bits_of_one_rank(const std::vector<int>& pp, const std::vector<int>& dp,
                               const std::vector<int>& tp) const {
    const std::string one = bits_of(1, 1, 1, "");
    for (const int stages : pp)
      for (const int replicas : dp)
        for (const int shares : tp)
          for (const char* sharding : {"", "zero1", "zero3"}) {
            EXPECT_EQ(bits_of(stages, replicas, shares, sharding), one)
                << "pp " << stages << " dp " << replicas << " tp " << shares << " " << sharding;
          }
  }
};

TEST_F(LayoutFreeRunTest, EveryAxisAloneAndAllTogetherHaveTheBitsOfOneRank) {
  expect_bits_of_one_rank({4}, {1}, {1});
  expect_bits_of_one_rank({1}, {4}, {1});
  expect_bits_of_one_rank({1}, {1}, {4});
  expect_bits_of_one_rank({2}, {2}, {2});
}

TEST_F(LayoutFreeRunTest, TheLogNamesTheDegreesThatKeepTheBits) {
  EXPECT_NE(train_anew().out.find(
                "bits: the same for any pipeline_parallel_degree and schedule but LoopedBFS, "
                "data_parallel_degree 1, 2, 4 or 8, "
                "tensor_parallel_degree 1, 2 or 4\n"),
            std::string::npos);
  EXPECT_NE(
      train_anew({"--training.layout_free=0"})
          .out.find("another data_parallel_degree or tensor_parallel_degree changes the bits"),
      std::string::npos);
}

TEST_F(LayoutFreeRunTest, ARunResumesAtAnotherLayoutWithoutAWarning) {
  train_anew({"--training.steps=1"});
  const ProgramResult resumed =
      train({"--parallelism.tensor_parallel_degree=2", "--parallelism.data_parallel_degree=2"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find("differ"), std::string::npos) << resumed.err;
}

class SlowLayoutFreeTest : public LayoutFreeRunTest {};

TEST_F(SlowLayoutFreeTest, EightyOneLayoutsHaveTheBitsOfOneRank) {
  expect_bits_of_one_rank({1, 2, 4}, {1, 2, 4}, {1, 2, 4});
}

}  // namespace
}  // namespace sluice::testing
