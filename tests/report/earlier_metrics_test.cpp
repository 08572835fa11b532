#include "report/metrics_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "base/log.h"
#include "report/metrics.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

StepMetrics metrics_of(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 1.0 / static_cast<double>(step);
  metrics.tokens = 1;
  metrics.step_seconds = 1;
  return metrics;
}

std::string line_of(std::int64_t step) { return to_json(metrics_of(step)) + "\n"; }
std::string lines_of(std::int64_t first, std::int64_t last) {
  std::string text;
  for (std::int64_t step = first; step <= last; ++step) text += line_of(step);
  return text;
}

class EarlierMetricsTest : public testing::Test {
 protected:
  EarlierMetricsTest() {
    set_log_sink([this](LogLevel level, std::string_view message) {
      EXPECT_EQ(level, LogLevel::kWarning);
      said_ += message;
    });
  }
  ~EarlierMetricsTest() override { set_log_sink({}); }

  std::string path() const { return folder_ / "metrics.jsonl"; }
  void leave(const std::string& text) const { test::write_file(path(), text); }
  std::string after_going_on_from(std::int64_t step) const {
    { MetricsFile(folder_.str(), step).append(metrics_of(step + 1)); }
    return test::read_file(path());
  }

  const test::TempDirectory folder_;
  std::string said_;
};

TEST_F(EarlierMetricsTest, ARunThatGoesOnKeepsTheLinesUpToThereAndAppends) {
  leave(lines_of(1, 9));
  EXPECT_EQ(after_going_on_from(5), lines_of(1, 6));
  EXPECT_EQ(said_, "dropped from " + path() + ": 4 lines after step 5");
  EXPECT_EQ(test::list_directory(folder_.str()), std::set<std::string>{"metrics.jsonl"});
}

TEST_F(EarlierMetricsTest, WhereNothingIsDroppedNothingIsSaid) {
  leave(line_of(1) + line_of(5));
  EXPECT_EQ(after_going_on_from(5), line_of(1) + line_of(5) + line_of(6));
  EXPECT_EQ(said_, "");
}

TEST_F(EarlierMetricsTest, ATornLastLineGoesWhereverItWasTorn) {
  const std::string last = line_of(3);
  for (std::size_t length = 1; length < last.size(); length += 1 + last.size() / 12) {
    said_.clear();
    leave(lines_of(1, 2) + last.substr(0, length));
    ASSERT_EQ(after_going_on_from(3), lines_of(1, 2) + line_of(4)) << length;
    ASSERT_EQ(said_, "dropped from " + path() + ": 1 damaged or foreign line");
  }
}

TEST_F(EarlierMetricsTest, WhatIsNoLineOfARunIsDroppedAndCounted) {
  const std::string zeros(4096, '\0');
  leave("\n" + line_of(1) + "# a note\n{\"step\": 2}\n{\"step\": 2.5, \"loss\": 1}\n[1]\n" +
        "{\"step\": -2, \"loss\": 1}\n{\"step\": 99999999999999999999, \"loss\": 1}\n" +
        std::string(100'000, '[') + "\n" + line_of(2) + zeros + "\n" + line_of(2) + line_of(1) +
        line_of(3) + line_of(9));
  EXPECT_EQ(after_going_on_from(4), lines_of(1, 3) + line_of(5));
  EXPECT_EQ(said_,
            "dropped from " + path() + ": 1 line after step 4 and 11 damaged or foreign lines");
}

TEST_F(EarlierMetricsTest, LinesLongerThanWhatIsReadAtOnceAreKeptAsTheyAre) {
  StepMetrics metrics = metrics_of(2);
  metrics.parameter_norms.emplace();
  for (int i = 0; i < 60'000; ++i)
    metrics.parameter_norms->push_back({"model.layers." + std::to_string(i) + ".weight", 0.1 * i});
  const std::string text = line_of(1) + to_json(metrics) + "\n";
  ASSERT_GT(text.size(), std::size_t{1} << 20);
  leave(text + line_of(3));
  EXPECT_EQ(after_going_on_from(3), text + line_of(3) + line_of(4));
  EXPECT_EQ(said_, "");
}

TEST_F(EarlierMetricsTest, WithoutAnEarlierFileThereIsANewOne) {
  EXPECT_EQ(after_going_on_from(7), line_of(8));
  EXPECT_EQ(said_, "");
}

TEST_F(EarlierMetricsTest, WhatCannotBeReadIsLeftAsItIs) {
  fs::create_directories(path());
  const Error error = test::error_of([&] { MetricsFile(folder_.str(), 5); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_TRUE(fs::is_directory(path()));
  EXPECT_EQ(test::list_directory(folder_.str()), std::set<std::string>{"metrics.jsonl"});
}

TEST_F(EarlierMetricsTest, OfALineThatCannotBeWrittenNothingFollowsTheKeptOnes) {
  leave(lines_of(1, 3));
  MetricsFile file(folder_.str(), 2);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit few = before;
  few.rlim_cur = lines_of(1, 2).size() + 10;
  setrlimit(RLIMIT_FSIZE, &few);
  const Error error = test::error_of([&] { file.append(metrics_of(3)); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(test::read_file(path()), lines_of(1, 2));
  file.append(metrics_of(3));
  file.sync();
  EXPECT_EQ(test::read_file(path()), lines_of(1, 3));
  EXPECT_NO_THROW(file.require_in_place());
}

}  // namespace
}  // namespace sluice
