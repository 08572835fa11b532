#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sluice/data.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::TempDirectory;

// Each row is [number, number, number].
std::string numbered_rows(int count) {
  std::string text;
  for (int i = 1; i <= count; ++i) {
    const std::string number = std::to_string(i);
    text += "{\"input_ids\": [" + number + ", " + number + ", " + number + "]}\n";
  }
  return text;
}

TokenData open_rows(const TempDirectory& folder, int count, double epochs) {
  test::write_file(folder / "rows.jsonl", numbered_rows(count));
  TokenDataOptions options;
  options.data.files = {folder / "rows.jsonl"};
  options.seq_len = 3;
  options.vocab_size = 256;
  options.seed = 7;
  options.epochs = epochs;
  return TokenData(options);
}

// Adds how often each row counts in the steps after `done`. Checks that the replicas' shares agree.
StepsDone count_rows(const TokenData& data, std::int64_t last, std::int64_t batch_size,
                     std::int64_t replicas, std::map<int, int>& seen, const StepsDone& done = {}) {
  const std::int64_t own = batch_size / replicas;
  for (std::int64_t step = done.steps + 1; step <= last; ++step) {
    std::int64_t counted = 0, total = 0;
    for (std::int64_t replica = 0; replica < replicas; ++replica) {
      const StepShare share = data.step_share(step, batch_size, {replica * own, own}, done);
      total = share.total_counted;
      counted += share.rows.counted_labels(0, own);
      for (std::int64_t row = 0; row < own; ++row)
        if (share.rows.counted_labels(row, 1) > 0) ++seen[share.rows.ids[row * 3]];
    }
    EXPECT_EQ(counted, total) << step;
  }
  return {last, data.position_of(last + 1, batch_size, done)};
}

std::map<int, int> each(int count, int times) {
  std::map<int, int> all;
  for (int i = 1; i <= count; ++i) all[i] = times;
  return all;
}

TEST(EpochsTest, TwoEpochsCountEveryRowTwiceForAnyNumberOfReplicas) {
  const TempDirectory folder;
  const TokenData data = open_rows(folder, 37, 2);
  for (const std::int64_t replicas : {1, 2, 4}) {
    const std::int64_t batch_size = 4 * replicas;
    const std::int64_t steps = data.num_steps(batch_size);
    EXPECT_EQ(steps, (74 + batch_size - 1) / batch_size);
    std::map<int, int> seen;
    const StepsDone done = count_rows(data, steps, batch_size, replicas, seen);
    EXPECT_EQ(seen, each(37, 2)) << replicas;
    EXPECT_EQ(done.position.sequence, 74);
  }
}

TEST(EpochsTest, AResumeInTheSecondEpochWithAnotherBatchSizeCountsEveryRowTwice) {
  const TempDirectory folder;
  const TokenData data = open_rows(folder, 37, 2);
  std::map<int, int> seen;
  const StepsDone done = count_rows(data, 11, 4, 1, seen);  // 44 of 74 rows
  const std::int64_t steps = data.num_steps(16, done);
  EXPECT_EQ(steps, 11 + 2);
  count_rows(data, steps, 16, 4, seen, done);
  EXPECT_EQ(seen, each(37, 2));
}

TEST(EpochsTest, MoreEpochsContinueAfterAPartlyFilledStep) {
  const TempDirectory folder;
  std::map<int, int> seen;
  const StepsDone done = count_rows(open_rows(folder, 37, 1), 5, 8, 2, seen);
  EXPECT_EQ(done.position.sequence, 37);
  const TokenData data = open_rows(folder, 37, 2);
  count_rows(data, data.num_steps(8, done), 8, 1, seen, done);
  EXPECT_EQ(seen, each(37, 2));
}

TEST(EpochsTest, FractionsEndWithinAnEpoch) {
  const TempDirectory folder;
  EXPECT_EQ(open_rows(folder, 40, 2.5).num_steps(10), 10);
  EXPECT_EQ(open_rows(folder, 40, 0.1).num_steps(4), 1);
  EXPECT_EQ(open_rows(folder, 40, 0.001).num_steps(4), 1) << "at least one row";
  EXPECT_EQ(open_rows(folder, 40, 0).num_steps(4), 0);
  const TokenData data = open_rows(folder, 40, 1);
  EXPECT_EQ(data.num_steps(4, {10, {40}}), 10) << "nothing is left";
}

TEST(EpochsTest, WithoutEpochsAllRowsCount) {
  const TempDirectory folder;
  std::map<int, int> seen;
  const StepsDone done = count_rows(open_rows(folder, 37, 0), 10, 8, 1, seen);
  EXPECT_EQ(done.position.sequence, 80);
}

}  // namespace
}  // namespace sluice
