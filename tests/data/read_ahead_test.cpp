#include "data/read_ahead.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::data {
namespace {

using test::error_of;
using test::TempDirectory;

class ReadAheadTest : public testing::Test {
 protected:
  ReadAheadTest() {
    std::string rows;
    for (int i = 0; i < 40; ++i)
      rows += "{\"input_ids\":[" + std::to_string(i) + "," + std::to_string(i) + "]}\n";
    test::write_file(folder_ / "a.jsonl", rows);
  }
  TokenData data() const {
    TokenDataOptions options;
    options.data.files = {folder_ / "a.jsonl"};
    options.data.shuffle = false;
    options.seq_len = 2;
    options.vocab_size = 100;
    return TokenData(options);
  }
  static StepsToRead steps(std::int64_t first, std::int64_t last) {
    return {first, last, 4, {}, {{0, {0, 2}}, {1, {0, 2}}, {2, {2, 2}}, {3, {2, 2}}}};
  }
  const TempDirectory folder_;
};

TEST_F(ReadAheadTest, EveryRankGetsItsShareOfEveryStep) {
  const TokenData all = data();
  ReadAhead ahead(all, steps(3, 30));
  std::vector<int> mismatches(4);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      for (std::int64_t step = 3; step <= 30; ++step) {
        const StepShare share = ahead.take(step, rank);
        const StepShare expected = all.step_share(step, 4, {rank / 2 * 2, 2});
        mismatches[static_cast<std::size_t>(rank)] +=
            share.rows.ids != expected.rows.ids || share.total_counted != expected.total_counted;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(mismatches, std::vector<int>(4, 0));
}

TEST_F(ReadAheadTest, AnErrorComesWithItsStepToEveryRank) {
  const TokenData all = data();
  ReadAhead ahead(all, steps(1, 30));
  for (int rank = 0; rank < 4; ++rank) ahead.take(1, rank);
  for (int rank = 0; rank < 4; ++rank) ahead.take(2, rank);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::filesystem::remove(folder_ / "a.jsonl");
  std::int64_t failed = 0;
  for (std::int64_t step = 3; failed == 0; ++step) {
    ASSERT_LE(step, 6);
    try {
      for (int rank = 0; rank < 4; ++rank) ahead.take(step, rank);
    } catch (const Error&) {
      failed = step;
    }
  }
  EXPECT_EQ(failed, 5) << "two steps were ready";
  for (int rank = 1; rank < 4; ++rank) {
    const Error error = error_of([&] { ahead.take(failed, rank); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.where(), "step 5, " + folder_ / "a.jsonl");
  }
}

TEST_F(ReadAheadTest, StopsWithUnreadBatches) {
  const TokenData all = data();
  { ReadAhead never_taken(all, steps(1, 1'000'000)); }
  ReadAhead one_rank_left(all, steps(1, 1'000'000));
  one_rank_left.take(1, 0);
  one_rank_left.take(2, 0);
}

}  // namespace
}  // namespace sluice::data
