#include <gtest/gtest.h>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class TrainProductKindsTest : public TrainCommandTest {
 protected:
  std::string line(const std::string& products, const std::string& options) const {
    return "SLUICE_PRODUCTS=" + products + " " + quoted_for_shell(SLUICE_PROGRAM) + " train " +
           quoted_for_shell(config()) + " " + options;
  }
};

TEST_F(TrainProductKindsTest, TheLogNamesTheKindAndResumingWithTheOtherWarns) {
  const ProgramResult own = run_shell(line("own", ""));
  ASSERT_EQ(own.exit_code, 0) << own.err;
  EXPECT_NE(own.out.find(", own products\n"), std::string::npos) << own.out;
  const ProgramResult same = run_shell(line("own", "--training.steps=4"));
  ASSERT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.err.find("kernels"), std::string::npos) << same.err;
  const ProgramResult other = run_shell(line("libtorch", "--training.steps=5"));
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_NE(other.out.find(", products of LibTorch"), std::string::npos) << other.out;
  EXPECT_NE(other.err.find("kernels: fused, "), std::string::npos) << other.err;
  EXPECT_NE(other.err.find("own products -> fused, "), std::string::npos) << other.err;
}

TEST_F(TrainProductKindsTest, BothKindsTrainToTheSameLossesUpToRounding) {
  std::vector<double> own;
  for (const std::string products : {"own", "libtorch"}) {
    fs::remove_all(out());
    const ProgramResult result = run_shell(line(products, ""));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> losses;
    for (const nlohmann::json& step : metrics()) losses.push_back(step.at("loss"));
    if (own.empty()) own = losses;
    ASSERT_EQ(losses.size(), 3u);
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], own[i], 1e-5 * own[i]);
  }
}

TEST_F(TrainProductKindsTest, ProcessesOfOtherKindsRefuseEachOther) {
  const std::string of_both = "MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WORLD_SIZE=2 ";
  const ProgramResult result = run_shell(
      "port=$(python3 -c \"import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); "
      "print(s.getsockname()[1])\"); RANK=0 " +
      of_both + line("own", "") + " & first=$!; RANK=1 " + of_both + line("libtorch", "") +
      "; wait $first; exit $?");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("its kernels is fused, "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("own products"), std::string::npos) << result.err;
}

TEST_F(TrainProductKindsTest, AnotherWordIsRefusedWithTheNearest) {
  const ProgramResult result = run_shell(line("owm", ""));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("unknown kind of matrix products 'owm'; SLUICE_PRODUCTS; did you mean "
                            "'own'?"),
            std::string::npos)
      << result.err;
  EXPECT_FALSE(fs::exists(out()));
}

}  // namespace
}  // namespace sluice::testing
