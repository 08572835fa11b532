// What decides a single difference.
#include "report/compare/compare_pair.h"

#include <gtest/gtest.h>

#include <limits>

#include "report/compare/compare_runs.h"
#include "report/compare/comparison_output.h"
#include "sluice/error.h"
#include "support/small_trainer.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

class ComparePairTest : public ::testing::Test {
 protected:
  RunComparison compare(const std::string& name, const std::string& a, const std::string& b) {
    test::write_file(folder_ / ("a/" + name), a);
    test::write_file(folder_ / ("b/" + name), b);
    return compared(name);
  }
  RunComparison compare_tensor(const test::SmallTensor& a, const test::SmallTensor& b,
                               bool is_bfloat16 = false, const std::string& name = "w") {
    test::write_tensors(folder_ / "a/grad.safetensors", {{name, a}}, is_bfloat16);
    test::write_tensors(folder_ / "b/grad.safetensors", {{name, b}}, is_bfloat16);
    return compared("grad.safetensors");
  }
  RunComparison compared(const std::string& name) {
    return compare_runs({read_compared_run(folder_ / ("a/" + name), 0),
                         read_compared_run(folder_ / ("b/" + name), 1)},
                        {});
  }
  static test::SmallTensor ramp(float factor) {
    test::SmallTensor tensor{{16, 8}, {}};
    for (int i = 0; i < 128; ++i)
      tensor.values.push_back(factor * static_cast<float>(i % 7 - 3 + 0.25 * (i % 5)));
    return tensor;
  }

  const test::TempDirectory folder_;
};

TEST_F(ComparePairTest, CountsTheDecimalsOfALog) {
  const std::string head = "step,loss\n1,3.2104\n2,3.1987\n";
  EXPECT_EQ(compare("log.csv", head, "step,loss\n1,3.2105\n2,3.1987\n").verdict,
            RunVerdict::kRounding);
  EXPECT_EQ(compare("log.csv", head, "step,loss\n1,3.2204\n2,3.1987\n").verdict, RunVerdict::kBug);
}

TEST_F(ComparePairTest, NamesTheFirstStepThatDiffersAndTheFirstUnexplained) {
  const RunComparison comparison = compare(
      "metrics.jsonl",
      "{\"step\":1,\"loss\":5,\"grad_norm\":2}\n{\"step\":2,\"loss\":4.5,\"grad_norm\":2}\n",
      "{\"step\":1,\"loss\":5.0000001,\"grad_norm\":2}\n"
      "{\"step\":2,\"loss\":4.5,\"grad_norm\":4}\n");
  EXPECT_EQ(comparison.verdict, RunVerdict::kBug);
  const PairComparison& pair = comparison.pairs.front();
  EXPECT_EQ(pair.first->step, 1);
  EXPECT_EQ(pair.first->name, "loss");
  EXPECT_EQ(pair.first_beyond->step, 2);
  EXPECT_EQ(pair.first_beyond->name, "grad_norm");
  EXPECT_NE(pair.first_beyond->evidence.find("B is 2 times A"), std::string::npos);
}

TEST_F(ComparePairTest, ComparesNoTimes) {
  const RunComparison comparison =
      compare("metrics.jsonl", "{\"step\":1,\"loss\":5,\"step_seconds\":2}\n",
              "{\"step\":1,\"loss\":5,\"step_seconds\":3}\n");
  EXPECT_EQ(comparison.verdict, RunVerdict::kEqual);
}

// Rounding to bfloat16 could explain the distance, but it has no direction.
TEST_F(ComparePairTest, FindsACommonFactorWithinTheBoundOfBfloat16) {
  EXPECT_EQ(compare_tensor(ramp(1), ramp(1.125f), true).verdict, RunVerdict::kBug);
}

TEST_F(ComparePairTest, AllowsNoiseInGradientsOfBiasesThatAreZero) {
  test::write_tensors(folder_ / "a/grad.safetensors",
                      {{"k.bias", {{2}, {1e-9f, 2e-9f}}}, {"k.weight", ramp(1)}});
  test::write_tensors(folder_ / "b/grad.safetensors",
                      {{"k.bias", {{2}, {-2e-9f, 1e-9f}}}, {"k.weight", ramp(1)}});
  EXPECT_EQ(compared("grad.safetensors").verdict, RunVerdict::kRounding);
}

TEST_F(ComparePairTest, DifferentFormsAndInfinitiesAreNoRounding) {
  test::SmallTensor other = ramp(1);
  other.shape = {8, 16};
  EXPECT_EQ(compare_tensor(ramp(1), other).verdict, RunVerdict::kBug);
  other = ramp(1);
  other.values[3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(compare_tensor(ramp(1), other).verdict, RunVerdict::kBug);
  test::write_tensors(folder_ / "b/grad.safetensors", {{"v", ramp(1)}, {"w", ramp(1)}});
  test::write_tensors(folder_ / "a/grad.safetensors", {{"w", ramp(1)}});
  EXPECT_EQ(compared("grad.safetensors").verdict, RunVerdict::kBug);
}

TEST_F(ComparePairTest, RefusesRunsWithNothingInCommon) {
  test::write_tensors(folder_ / "a/grad.safetensors", {{"w", ramp(1)}});
  test::write_tensors(folder_ / "b/grad.safetensors", {{"v", ramp(1)}});
  EXPECT_THROW(compared("grad.safetensors"), Error);
  EXPECT_THROW(compare("metrics.jsonl", "{\"step\":1,\"loss\":5}\n", "{\"step\":2,\"loss\":5}\n"),
               Error);
  EXPECT_THROW(
      compare("metrics.jsonl", "{\"step\":1,\"loss\":5}\n", "{\"step\":1,\"lm loss\":5}\n"), Error);
}

TEST_F(ComparePairTest, WritesJson) {
  const Json json = run_comparison_json(compare_tensor(ramp(1), ramp(2)));
  EXPECT_EQ(json.at("verdict").text(), "bug");
  EXPECT_EQ(json.at("groups").size(), 2u);
  const Json& pair = json.at("pairs").list().front();
  EXPECT_EQ(pair.at("first_unexplained").at("name").text(), "w");
  EXPECT_FALSE(pair.at("first_unexplained").at("explained").boolean());
  EXPECT_EQ(pair.at("compared").integer(), 1);
}

}  // namespace
}  // namespace sluice
