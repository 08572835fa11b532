// Planted bugs are told from another order of additions. COMPARE_SEED draws other cases.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "report/compare/compare_runs.h"
#include "report/compare/comparison_output.h"
#include "support/small_trainer.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::PlantedBug;
using test::SmallTraining;

constexpr int kPairs = 30;
constexpr PlantedBug kBugs[] = {PlantedBug::kScaledLayer, PlantedBug::kDroppedReduction,
                                PlantedBug::kLabelsShiftedTwice, PlantedBug::kMissingMicrobatch,
                                PlantedBug::kWrongDivisor};

std::uint64_t first_seed() {
  const char* const given = std::getenv("COMPARE_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

struct DrawnPair {
  SmallTraining a, b;
};

std::vector<DrawnPair> draw_pairs(bool is_bfloat16, bool has_bug) {
  std::mt19937_64 draw(first_seed() * 2 + (has_bug ? 1 : 0));
  std::vector<DrawnPair> pairs;
  for (int i = 0; i < kPairs; ++i) {
    SmallTraining a{.seed = draw(), .is_bfloat16 = is_bfloat16};
    a.degree = 2 << draw() % 2;
    SmallTraining b = a;
    b.order = draw() | 1;
    if (has_bug) b.bug = kBugs[i % std::size(kBugs)];
    pairs.push_back({a, b});
  }
  return pairs;
}

RunComparison comparison_of(const std::string& a, const std::string& b,
                            const CompareOptions& options = {}) {
  return compare_runs({read_compared_run(a, 0), read_compared_run(b, 1)}, options);
}

// Compares `what` of both trainings of each pair.
void expect_verdicts(bool is_bfloat16, bool has_bug, bool uses_adamw, const std::string& what) {
  CompareOptions options;
  if (is_bfloat16) options.dtype = find_float_word("bfloat16");
  for (DrawnPair& pair : draw_pairs(is_bfloat16, has_bug)) {
    const test::TempDirectory folder;
    pair.a.uses_adamw = pair.b.uses_adamw = uses_adamw;
    // AdamW divides each gradient by its size, so weights do not show a factor.
    const bool is_factor =
        pair.b.bug == PlantedBug::kScaledLayer || pair.b.bug == PlantedBug::kWrongDivisor;
    if (uses_adamw && what == "weights" && is_factor) continue;
    test::train_small_model(pair.a, folder / "a");
    test::train_small_model(pair.b, folder / "b");
    if (is_bfloat16 && what != "metrics.jsonl") options.start = folder / "a/start.safetensors";
    const RunComparison comparison =
        comparison_of(folder / ("a/" + what), folder / ("b/" + what), options);
    EXPECT_EQ(comparison.verdict, has_bug ? RunVerdict::kBug : RunVerdict::kRounding)
        << "seed " << pair.a.seed << ", order " << pair.b.order << ", bug "
        << static_cast<int>(pair.b.bug) << "\n"
        << run_comparison_text(comparison);
  }
}

TEST(CompareVerdictsTest, TellsBugsInGradientsFromRounding) {
  expect_verdicts(false, true, false, "grads");
  expect_verdicts(false, false, false, "grads");
}

TEST(CompareVerdictsTest, TellsBugsInBfloat16GradientsFromRounding) {
  expect_verdicts(true, true, false, "grads");
  expect_verdicts(true, false, false, "grads");
}

TEST(CompareVerdictsTest, TellsBugsInLoggedNumbersFromRounding) {
  expect_verdicts(false, true, false, "metrics.jsonl");
  expect_verdicts(false, false, false, "metrics.jsonl");
  expect_verdicts(false, true, true, "metrics.jsonl");
  expect_verdicts(false, false, true, "metrics.jsonl");
}

TEST(CompareVerdictsTest, CallsBfloat16NumbersRounding) {
  expect_verdicts(true, false, false, "metrics.jsonl");
  expect_verdicts(true, false, true, "metrics.jsonl");
}

TEST(CompareVerdictsTest, TellsBugsInWeightsFromRounding) {
  expect_verdicts(false, true, false, "weights");
  expect_verdicts(false, false, false, "weights");
  expect_verdicts(false, true, true, "weights");
  expect_verdicts(false, false, true, "weights");
}

// Roundings to bfloat16 are large beside the weights, and small beside what training moved them.
TEST(CompareVerdictsTest, TellsBugsInWeightsOfBfloat16RunsFromRoundingByTheirStart) {
  expect_verdicts(true, true, true, "weights");
  expect_verdicts(true, false, true, "weights");
}

TEST(CompareVerdictsTest, CallsOneRunTwiceEqual) {
  const test::TempDirectory folder;
  test::train_small_model({.seed = 5}, folder / "a");
  test::train_small_model({.seed = 5}, folder / "b");
  for (const char* what : {"grads", "weights", "metrics.jsonl"}) {
    EXPECT_EQ(
        comparison_of(folder / (std::string("a/") + what), folder / (std::string("b/") + what))
            .verdict,
        RunVerdict::kEqual)
        << what;
  }
}

TEST(CompareVerdictsTest, NamesTheTensorAndTheFactorOfAScaledLayer) {
  const test::TempDirectory folder;
  test::train_small_model({.seed = 6}, folder / "a");
  test::train_small_model({.seed = 6, .order = 3, .bug = PlantedBug::kScaledLayer, .degree = 4},
                          folder / "b");
  const RunComparison comparison = comparison_of(folder / "a/grads", folder / "b/grads");
  const PairComparison& pair = *comparison.decisive();
  EXPECT_EQ(pair.first_beyond->step, 1);
  EXPECT_EQ(pair.first_beyond->name, "layers.2.weight");  // seed % 4
  EXPECT_NE(pair.first_beyond->evidence.find("B is 4 times A"), std::string::npos)
      << pair.first_beyond->evidence;
}

TEST(CompareVerdictsTest, NamesTheAxisThatSeparatesTheGroups) {
  const test::TempDirectory folder;
  std::vector<ComparedRun> runs;
  for (const int pp : {1, 2}) {
    for (const int tp : {1, 2, 4}) {
      const std::string name = std::to_string(pp) + std::to_string(tp);
      SmallTraining training{.seed = 8, .order = static_cast<std::uint64_t>(10 * pp + tp)};
      if (tp > 1) training.bug = PlantedBug::kWrongDivisor;
      test::train_small_model(training, folder / name);
      runs.push_back(read_compared_run("pp=" + std::to_string(pp) + ",tp=" + std::to_string(tp) +
                                           ":" + (folder / (name + "/grads")),
                                       runs.size()));
    }
  }
  const RunComparison comparison = compare_runs(std::move(runs), {});
  EXPECT_EQ(comparison.verdict, RunVerdict::kBug);
  EXPECT_EQ(comparison.groups,
            (std::vector<std::vector<std::string>>{{"A", "D"}, {"B", "C", "E", "F"}}));
  EXPECT_EQ(comparison.axes, std::vector<std::string>{"tp"});
}

}  // namespace
}  // namespace sluice
