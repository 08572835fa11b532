#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "data/sequence_order.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::TempDirectory;

TokenDataOptions options_of(std::vector<std::string> files, std::int64_t seq_len,
                            bool shuffle = false) {
  TokenDataOptions options;
  options.data.files = std::move(files);
  options.data.shuffle = shuffle;
  options.seq_len = seq_len;
  options.vocab_size = 256;
  return options;
}

// Characters 1, 2, ..., 127, 1, ... in files of the given sizes.
std::vector<std::string> counting_files(const TempDirectory& directory,
                                        const std::vector<int>& sizes) {
  std::vector<std::string> files;
  int next = 0;
  for (const int size : sizes) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(next++ % 127 + 1);
    files.push_back(directory / ("part" + std::to_string(files.size()) + ".txt"));
    test::write_file(files.back(), bytes);
  }
  return files;
}

using Tokens = std::vector<std::int32_t>;

TokenRows batch(const TokenData& data, std::int64_t step, std::int64_t batch_size) {
  return data.read(position_of_step(step, batch_size), batch_size);
}

TokenData rows(const TempDirectory& directory, const std::string& text, std::int64_t seq_len = 4,
               bool truncate = false) {
  test::write_file(directory / "rows.jsonl", text);
  TokenDataOptions options = options_of({directory / "rows.jsonl"}, seq_len);
  options.data.truncate = truncate;
  return TokenData(options);
}

TEST(DataFilesInUseTest, AFileThatIsWrittenToIsAWarningOnce) {
  const TempDirectory directory;
  const std::vector<std::string> files = counting_files(directory, {40, 40, 40});
  const TokenData data(options_of(files, 4));
  std::vector<std::string> logged;
  set_log_sink([&](LogLevel level, std::string_view message) {
    EXPECT_EQ(level, LogLevel::kWarning);
    logged.emplace_back(message);
  });
  batch(data, 1, 2);
  EXPECT_EQ(logged, std::vector<std::string>());
  const auto written = std::filesystem::last_write_time(files[1]);
  test::write_file(files[1], std::string(40, 'x'));
  std::filesystem::last_write_time(files[1], written + std::chrono::seconds(1));
  for (std::int64_t step = 2; step <= 4; ++step) batch(data, step, 2);
  EXPECT_EQ(logged,
            std::vector<std::string>{
                files[1] + " changed while the run reads it: later rows may differ, and resuming "
                           "fails with other data; leave data files alone during a run"});
  std::filesystem::last_write_time(files[2], written + std::chrono::seconds(2));
  batch(data, 5, 2);
  ASSERT_EQ(logged.size(), 2u);
  EXPECT_TRUE(logged[1].starts_with(files[2] + " changed"));
  set_log_sink({});
}

TEST(TextDataTest, CutsTheFilesInARowAndDropsTheTail) {
  const TempDirectory directory;
  const TokenData data(options_of(counting_files(directory, {3, 0, 1, 7, 2}), 4));
  EXPECT_EQ(data.num_bytes(), 13);
  EXPECT_EQ(data.num_sequences(), 3);
  const TokenRows rows = batch(data, 1, 3);
  EXPECT_EQ(rows.num_rows, 3);
  EXPECT_EQ(rows.seq_len, 4);
  EXPECT_EQ(rows.ids, (Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(rows.labels, rows.ids);
}

TEST(TextDataTest, KeepsBytesAbove127AndAnyEndingIsText) {
  const TempDirectory directory;
  test::write_file(directory / "data.h", "\xc3\xbf");
  test::write_file(directory / "noending", "\x01\x61");
  const TokenData data(options_of({directory / "data.h", directory / "noending"}, 4));
  EXPECT_EQ(batch(data, 1, 1).ids, (Tokens{0xc3, 0xbf, 1, 97}));
}

TEST(TextDataTest, BeginsAgainAtTheEndInFileOrder) {
  const TempDirectory directory;
  const TokenData data(options_of(counting_files(directory, {6}), 2));
  EXPECT_EQ(batch(data, 1, 2).ids, (Tokens{1, 2, 3, 4}));
  EXPECT_EQ(batch(data, 2, 2).ids, (Tokens{5, 6, 1, 2}));
  EXPECT_EQ(batch(data, 1, 5).ids, (Tokens{1, 2, 3, 4, 5, 6, 1, 2, 3, 4}));
}

TEST(TextDataTest, ShufflesEveryEpochAnewAndUsesEverySequenceOnce) {
  const TempDirectory directory;
  TokenDataOptions options = options_of(counting_files(directory, {60, 60}), 2, true);
  options.seed = 5;
  const TokenData data(options);
  std::vector<Tokens> epochs;
  Tokens row;  // first byte of each sequence; a step has 12 sequences
  for (std::int64_t step = 1; step <= 15; ++step) {
    const Tokens ids = batch(data, step, 12).ids;
    for (std::size_t i = 0; i < ids.size(); i += 2) row.push_back(ids[i]);
    if (row.size() == 60) epochs.push_back(std::exchange(row, {}));
  }
  ASSERT_EQ(epochs.size(), 3u);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  options.seed = 6;
  EXPECT_NE(batch(TokenData(options), 1, 20).ids, batch(data, 1, 20).ids);
  for (Tokens& epoch : epochs) {
    EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
    std::sort(epoch.begin(), epoch.end());
    for (std::int64_t i = 0; i < 60; ++i) EXPECT_EQ(epoch[i], 2 * i + 1);
  }
}

TEST(TextDataTest, APositionIsAllThatGoingOnNeeds) {
  const TempDirectory directory;
  const TokenData data(options_of(counting_files(directory, {100, 100}), 4, true));
  const DataPosition position = position_of_step(9, 7);
  EXPECT_EQ(position, DataPosition{56});
  Tokens in_a_row = data.read(position, 3).ids;
  const Tokens rest = data.read({position.sequence + 3}, 5).ids;
  in_a_row.insert(in_a_row.end(), rest.begin(), rest.end());
  EXPECT_EQ(data.read(position, 8).ids, in_a_row);
}

TEST(TextDataTest, ARunThatGoesOnWithAnotherBatchSizeNeitherRepeatsNorSkipsASequence) {
  const TempDirectory directory;
  const TokenData data(options_of(counting_files(directory, {100, 100}), 4, true));
  const Tokens clean = data.read({0}, 60).ids;
  Tokens pieces;
  StepsDone done;
  for (const auto& [steps, batch_size] : {std::pair<int, int>{3, 4}, {2, 7}, {1, 1}, {11, 3}}) {
    std::int64_t step = done.steps;
    for (int i = 0; i < steps; ++i) {
      const Tokens ids = data.step_rows(++step, batch_size, done).ids;
      pieces.insert(pieces.end(), ids.begin(), ids.end());
    }
    done = {step, position_of_step(step + 1, batch_size, done)};
  }
  EXPECT_EQ(done, (StepsDone{17, {60}}));
  EXPECT_EQ(pieces, clean);
}

TEST(TextDataTest, AStepIsReadOnceBeforeItRuns) {
  const TempDirectory directory;
  const std::vector<std::string> files = counting_files(directory, {40});
  const TokenData data(options_of(files, 4));
  const TokenRows rows = data.step_rows(2, 4);
  EXPECT_EQ(rows.ids, (Tokens{17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}));
  EXPECT_EQ(rows.labels, rows.ids);
  std::ofstream(files.front(), std::ios::trunc);
  Error error = error_of([&] { data.step_rows(3, 4); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), "step 3, " + files.front());
  std::filesystem::remove(files.front());
  error = error_of([&] { data.step_rows(4, 4); });
  EXPECT_EQ(error.where(), "step 4, " + files.front());
}

std::vector<StepShare> shares(const TokenData& data, std::int64_t step, std::int64_t batch_size,
                              std::int64_t replicas) {
  std::vector<StepShare> all;
  const std::int64_t each = batch_size / replicas;
  for (std::int64_t replica = 0; replica < replicas; ++replica)
    all.push_back(data.step_share(step, batch_size, {replica * each, each}));
  return all;
}

void expect_shares_are_the_step(const TokenData& data, std::int64_t batch_size) {
  for (std::int64_t step = 1; step <= 4; ++step) {
    const TokenRows whole = data.step_rows(step, batch_size);
    for (const std::int64_t replicas : {1, 2, 3, 6}) {
      Tokens ids, labels;
      for (const StepShare& share : shares(data, step, batch_size, replicas)) {
        EXPECT_EQ(share.rows.num_rows, batch_size / replicas);
        EXPECT_EQ(share.total_counted, whole.counted_labels(0, batch_size));
        ids.insert(ids.end(), share.rows.ids.begin(), share.rows.ids.end());
        labels.insert(labels.end(), share.rows.labels.begin(), share.rows.labels.end());
      }
      EXPECT_EQ(ids, whole.ids);
      EXPECT_EQ(labels, whole.labels);
    }
  }
}

TEST(TextDataTest, ReplicasShareTheBatchOfAStep) {
  const TempDirectory directory;
  expect_shares_are_the_step(TokenData(options_of(counting_files(directory, {50, 60}), 4, true)),
                             6);
}

TEST(TextDataTest, AReplicaReadsNoTextOfOthers) {
  const TempDirectory directory;
  const std::vector<std::string> files = counting_files(directory, {16, 16});
  const TokenData data(options_of(files, 4));
  std::filesystem::remove(files.back());
  EXPECT_EQ(data.step_share(1, 8, {0, 4}).total_counted, 8 * 3);
  EXPECT_EQ(error_of([&] { data.step_share(1, 8, {4, 4}); }).where(), "step 1, " + files.back());
}

TEST(TextDataTest, MakesTheSameBatchOnEveryThreadInAnyOrder) {
  const TempDirectory directory;
  const TokenData data(options_of(counting_files(directory, {120, 120}), 3, true));
  std::vector<Tokens> expected;
  for (std::int64_t step = 1; step <= 40; ++step) expected.push_back(batch(data, step, 7).ids);
  std::vector<int> mismatches(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < mismatches.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 40; ++i) {
        const std::int64_t step = (i * 7 + static_cast<std::int64_t>(t)) % 40 + 1;
        mismatches[t] += batch(data, step, 7).ids != expected[step - 1];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mismatches, (std::vector<int>(4, 0)));
}

TEST(TextDataTest, ReadsOnlyTheBytesOfTheBatch) {
  const TempDirectory directory;
  test::write_file(directory / "big.txt", std::string(5'000'000, 'x'));
  const TokenData data(options_of({directory / "big.txt"}, 100, true));
  const auto bytes_read = [] {
    std::ifstream io("/proc/self/io");
    std::string key;
    std::uint64_t value = 0;
    io >> key >> value;
    return value;
  };
  bytes_read();
  const std::uint64_t start = bytes_read();
  const std::uint64_t of_measuring = bytes_read() - start;
  const std::uint64_t before = bytes_read();
  batch(data, 3, 8);
  EXPECT_EQ(bytes_read() - before - of_measuring, 800u);
}

TEST(TextDataTest, ComputesTheUnigramEntropy) {
  const TempDirectory directory;
  test::write_file(directory / "a.txt", "aaaabb");
  test::write_file(directory / "b.txt", "cc");
  const TokenData data(options_of({directory / "a.txt", directory / "b.txt"}, 2));
  ASSERT_TRUE(data.unigram_entropy());
  EXPECT_NEAR(*data.unigram_entropy(), 1.5 * std::log(2.0), 1e-12);
  std::string every_character(127 * 10000, '\0');
  for (std::size_t i = 0; i < every_character.size(); ++i)
    every_character[i] = static_cast<char>(i % 127 + 1);
  test::write_file(directory / "c.txt", every_character);
  EXPECT_NEAR(*TokenData(options_of({directory / "c.txt"}, 2)).unigram_entropy(), std::log(127.0),
              1e-12);
}

TEST(TextDataTest, RefusesDataThatMakesNoSequence) {
  const TempDirectory directory;
  test::write_file(directory / "empty.txt", "");
  Error error = error_of([&] { TokenData data(options_of({directory / "empty.txt"}, 4)); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "the data has 0 bytes, not one whole sequence of 4");
  test::write_file(directory / "short.txt", "abc");
  EXPECT_EQ(error_of([&] { TokenData data(options_of({directory / "short.txt"}, 4)); }).kind(),
            ErrorKind::kInput);
  EXPECT_EQ(error_of([&] { TokenData data(options_of({directory / "none.txt"}, 4)); }).kind(),
            ErrorKind::kInput);
  EXPECT_EQ(error_of([&] { TokenData data(options_of({directory.str()}, 4)); }).fact(),
            "not a regular file");
  EXPECT_EQ(error_of([&] { TokenData data(options_of({}, 4)); }).kind(), ErrorKind::kUsage);
}

TEST(TextDataTest, NeedsAVocabularyOf256AndNoUnusedTokenizer) {
  const TempDirectory directory;
  TokenDataOptions options = options_of(counting_files(directory, {8}), 4);
  options.vocab_size = 255;
  EXPECT_EQ(error_of([&] { TokenData data(options); }).kind(), ErrorKind::kInput);
  options.vocab_size = 256;
  options.model_directory = directory.str();
  EXPECT_EQ(TokenData(options).num_sequences(), 2);
  test::write_file(directory / "tokenizer.json", "{}");
  const Error error = error_of([&] { TokenData data(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(std::string(error.what()).find(directory / "tokenizer.json"), std::string::npos);
  options.data.tokenizer = "bytes";
  EXPECT_EQ(TokenData(options).num_sequences(), 2);
}

TEST(TextDataTest, RefusesMixedFormats) {
  const TempDirectory directory;
  test::write_file(directory / "a.txt", "abcd");
  test::write_file(directory / "a.jsonl", R"({"text":"abcd"})");
  test::write_file(directory / "a.bin", "abcd");
  const Error error = error_of([&] {
    TokenData d(options_of({directory / "a.txt", directory / "a.jsonl"}, 4));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.fact(), "`data.files` mixes text and jsonl");
  TokenDataOptions as_text =
      options_of({directory / "a.txt", directory / "a.jsonl", directory / "a.bin"}, 4);
  as_text.data.format = DataFormat::kText;
  EXPECT_EQ(TokenData(as_text).num_bytes(), 4 + 15 + 4);
}

TEST(TextDataTest, AnEndingIsTheSameInUpperCase) {
  const TempDirectory directory;
  test::write_file(directory / "a.JSONL", R"({"input_ids":[1,2,3,4]})");
  EXPECT_EQ(TokenData(options_of({directory / "a.JSONL"}, 4)).num_sequences(), 1);
  test::write_file(directory / "a.PARQUET", "abcd");
  EXPECT_EQ(error_of([&] { TokenData d(options_of({directory / "a.PARQUET"}, 4)); }).kind(),
            ErrorKind::kInput);
}

TEST(JsonlDataTest, PadsOnTheRightAndCountsOnlyLabels) {
  const TempDirectory directory;
  const TokenData data = rows(directory, R"({"input_ids":[5,6,7,8],"labels":[-100,6,7,8]}
{"input_ids": [9, 10]}

  {"input_ids":[11, 12, 13], "meta": {"input_ids": [[1], "x"]}}
)");
  EXPECT_EQ(data.num_sequences(), 3);
  const TokenRows rows = batch(data, 1, 3);
  EXPECT_EQ(rows.ids, (Tokens{5, 6, 7, 8, 9, 10, 0, 0, 11, 12, 13, 0}));
  EXPECT_EQ(rows.labels, (Tokens{-100, 6, 7, 8, 9, 10, -100, -100, 11, 12, 13, -100}));
  EXPECT_EQ(rows.counted_labels(0, 2), 3 + 1);
  EXPECT_EQ(rows.counted_labels(2, 1), 2);
  EXPECT_FALSE(data.unigram_entropy());
}

TEST(JsonlDataTest, RefusesALastStepOfTheEpochsThatCountsNoLabel) {
  const TempDirectory directory;
  const std::string row = "{\"input_ids\":[1,2]}\n", none = "{\"input_ids\":[1]}\n";
  test::write_file(directory / "rows.jsonl", row + row + row + row + none);
  TokenDataOptions options = options_of({directory / "rows.jsonl"}, 4);
  options.epochs = 1;
  const TokenData data(options);
  EXPECT_EQ(data.num_steps(4), 2);
  const Error error = error_of([&] { data.require_counted_labels(2, 4); });
  EXPECT_EQ(error.where(), "step 2, " + directory / "rows.jsonl" + ":5");
  EXPECT_NO_THROW(data.require_counted_labels(1, 5));
}

TEST(JsonlDataTest, RefusesAFileOrAStepThatCountsNoLabel) {
  const TempDirectory directory;
  const std::string none =
      "{\"input_ids\":[1,2,3],\"labels\":[7,-100,-100]}\n{\"input_ids\":[1]}\n";
  const std::string some = "{\"input_ids\":[1,2]}\n";
  rows(directory, none + some).require_counted_labels(100, 3);
  const Error step =
      error_of([&] { rows(directory, some + none + some + none).require_counted_labels(9, 2); });
  EXPECT_EQ(step.kind(), ErrorKind::kInput);
  EXPECT_EQ(step.where(),
            "step 3, " + directory / "rows.jsonl" + ":5, " + (directory / "rows.jsonl") + ":6");
  EXPECT_NE(step.remedy().find("larger batches"), std::string::npos);
  const Error all = error_of([&] { rows(directory, none).require_counted_labels(100, 3); });
  EXPECT_EQ(all.remedy().find("larger batches"), std::string::npos) << all.what();
  const std::string mixed = none + some + some;
  EXPECT_THROW(rows(directory, mixed).require_counted_labels(2, 2), Error);
  EXPECT_NO_THROW(rows(directory, mixed).require_counted_labels(2, 2, {1, {2}}));
  EXPECT_NO_THROW(rows(directory, mixed).require_counted_labels(1, 2, {1, {4}}));
  EXPECT_EQ(error_of([&] {
              rows(directory, mixed).require_counted_labels(8, 2, {7, {4}});
            }).where(),
            "step 8, " + directory / "rows.jsonl" + ":1, " + (directory / "rows.jsonl") + ":2");
  EXPECT_EQ(error_of([&] {
              rows(directory, mixed).step_rows(8, 2, {7, {4}});
            }).where(),
            "step 8, " + directory / "rows.jsonl" + ":1, " + (directory / "rows.jsonl") + ":2");
  EXPECT_EQ(error_of([&] {
              rows(directory, "{\"input_ids\":[1,2,3],\"labels\":[1,-100,3]}\n", 2, true)
                  .require_counted_labels(1, 1);
            }).where(),
            directory / "rows.jsonl");
  test::write_file(directory / "b.jsonl", none);
  test::write_file(directory / "a.jsonl", some);
  const TokenData data(options_of({directory / "a.jsonl", directory / "b.jsonl"}, 4));
  EXPECT_EQ(error_of([&] { data.require_counted_labels(1, 1); }).where(), directory / "b.jsonl");
}

TEST(JsonlDataTest, ReplicasShareTheBatchOfAStepAndItsCount) {
  const TempDirectory directory;
  expect_shares_are_the_step(
      rows(directory,
           "{\"input_ids\":[1,2,3]}\n{\"input_ids\":[4,5],\"labels\":[4,-100]}\n"
           "{\"input_ids\":[6]}\n{\"input_ids\":[1,2,3,4]}\n{\"input_ids\":[7,8]}\n"),
      6);
}

TEST(JsonlDataTest, ABadRowIsTheSameErrorOnEveryReplica) {
  const TempDirectory directory;
  const std::string good = "{\"input_ids\":[1,2]}\n";
  const TokenData data = rows(directory, good + good + good + good);
  test::write_file(directory / "rows.jsonl", good + good + "{\"input_ids\":[1,]}\n" + good);
  for (std::int64_t replica = 0; replica < 4; ++replica) {
    EXPECT_EQ(error_of([&] {
                data.step_share(1, 4, {replica, 1});
              }).where(),
              "step 1, " + directory / "rows.jsonl" + ":3")
        << replica;
  }
}

TEST(JsonlDataTest, ABatchMayCountNothingForOneReplicaButNotForAll) {
  const TempDirectory directory;
  const std::string some = "{\"input_ids\":[1,2]}\n", none = "{\"input_ids\":[1]}\n";
  const TokenData data = rows(directory, none + none + some + some + none + none + none + none);
  EXPECT_EQ(data.step_share(1, 4, {0, 2}).total_counted, 2);
  const Error first = error_of([&] { data.step_share(2, 4, {0, 2}); });
  EXPECT_EQ(first.fact(), "no label of the step's batch is counted");
  EXPECT_STREQ(error_of([&] { data.step_share(2, 4, {2, 2}); }).what(), first.what());
}

std::string rows_counted(const std::vector<bool>& counted) {
  std::string text;
  for (const bool counts : counted)
    text += counts ? "{\"input_ids\":[1,2]}\n" : "{\"input_ids\":[1]}\n";
  return text;
}

TEST(JsonlDataTest, ForeseesExactlyTheStepsThatCountNothing) {
  const TempDirectory directory;
  for (std::uint32_t pattern = 1; pattern < 64; ++pattern) {
    std::vector<bool> counted;
    for (int row = 0; row < 6; ++row) counted.push_back(pattern >> row & 1U);
    const TokenData data = rows(directory, rows_counted(counted));
    for (std::int64_t batch_size = 1; batch_size <= 13; ++batch_size) {
      std::int64_t empty_steps = 0;
      for (std::int64_t step = 1; step <= 6; ++step) {
        empty_steps += batch(data, step, batch_size).counted_labels(0, batch_size) == 0;
      }
      if (empty_steps == 0) {
        EXPECT_NO_THROW(data.require_counted_labels(6, batch_size)) << pattern << " " << batch_size;
      } else {
        EXPECT_THROW(data.require_counted_labels(6, batch_size), Error)
            << pattern << " " << batch_size;
      }
    }
  }
}

TEST(JsonlDataTest, LooksForStepsWithoutLabelsOnlyAsFarAsTakesNoTime) {
  const TempDirectory directory;
  // Each batch leaves out one of the 10,001 rows, and the next batch leaves out the row before it.
  // Step 5,001 leaves out the only row that counts.
  std::vector<bool> counted(10'001);
  counted[5'000] = true;
  const TokenData data = rows(directory, rows_counted(counted));
  EXPECT_NO_THROW(data.require_counted_labels(1'000'000, 10'000));
  EXPECT_THROW(data.step_rows(5'001, 10'000), Error);
}

TEST(JsonlDataTest, ARowThatNeverEndsIsRefusedBeforeTheFileIsRead) {
  const TempDirectory directory;
  const std::string path = directory / "rows.jsonl";
  test::write_file(path, "\n{\"input_ids\":[1,2]}\n");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 36);
  const Error error = error_of([&] { TokenData data(options_of({path}, 4)); });
  EXPECT_EQ(error.fact(), "the row is longer than 64 MiB");
  EXPECT_EQ(error.where(), path + ":3");
}

TEST(JsonlDataTest, ReadsRowsOverSeveralFilesAndWithoutALastLineEnd) {
  const TempDirectory directory;
  test::write_file(directory / "a.jsonl", "\r\n{\"input_ids\":[1]}\r\n\t\n{\"input_ids\":[2]}");
  test::write_file(directory / "b.jsonl", "");
  test::write_file(directory / "c.jsonl", "{\"input_ids\":[3]}\n\n\n");
  const TokenData data(
      options_of({directory / "a.jsonl", directory / "b.jsonl", directory / "c.jsonl"}, 2));
  EXPECT_EQ(data.num_sequences(), 3);
  EXPECT_EQ(batch(data, 1, 4).ids, (Tokens{1, 0, 2, 0, 3, 0, 1, 0}));
}

TEST(JsonlDataTest, FindsRowsThatCrossReadBlocks) {
  const TempDirectory directory;
  std::string text;
  for (int i = 0; i < 3; ++i) {
    text += "{\"pad\":\"" + std::string(700'000, 'p') + "\",\"input_ids\":[" + std::to_string(i) +
            "]}\n" + std::string(400'000, ' ') + "\n";
  }
  const TokenData data = rows(directory, text, 1);
  EXPECT_EQ(batch(data, 1, 3).ids, (Tokens{0, 1, 2}));
}

TEST(JsonlDataTest, CutsLongRowsOnlyWhenAsked) {
  const TempDirectory directory;
  const std::string text = "{\"input_ids\":[1,2,3,4]}\n{\"input_ids\":[1,2,3,4,5]}\n";
  const Error error = error_of([&] { rows(directory, text); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "the row has 5 tokens, more than `seq_len` = 4");
  EXPECT_EQ(error.where(), directory / "rows.jsonl" + ":2");
  EXPECT_NE(error.remedy().find("data.truncate"), std::string::npos);
  EXPECT_EQ(batch(rows(directory, text, 4, true), 1, 2).ids, (Tokens{1, 2, 3, 4, 1, 2, 3, 4}));
}

TEST(JsonlDataTest, ChecksRowsInTheirOwnLengthWhateverTheSequenceLength) {
  const TempDirectory directory;
  EXPECT_EQ(rows(directory, "{\"input_ids\":[1,2,3]}\n", std::int64_t{1} << 50).num_sequences(), 1);
}

TEST(JsonlDataTest, NamesFileAndLineOfMalformedRows) {
  const TempDirectory directory;
  const std::string nul("{\"text\":\"a\"}\0{", 14);
  for (const std::string& row : std::vector<std::string>{"{",
                                                         "[]",
                                                         "7",
                                                         "null",
                                                         "\"text\"",
                                                         "{}",
                                                         "{\"text\":1}",
                                                         "{\"text\":null}",
                                                         "{\"text\":[\"a\"]}",
                                                         "{\"text\":\"\"}",
                                                         "{\"text\":\"a\"}}",
                                                         "{\"text\":\"a\"}{}",
                                                         "{\"text\":\"\xff\"}",
                                                         "{\"text\":\"\\ud800\"}",
                                                         "{\"text\":\"a\",\"text\":\"b\"}",
                                                         "{\"text\":\"a\",\"labels\":[1]}",
                                                         "{\"input_ids\":\"a\"}",
                                                         "{\"input_ids\":[]}",
                                                         "{\"input_ids\":[1.0]}",
                                                         "{\"input_ids\":[\"1\"]}",
                                                         "{\"input_ids\":[[1]]}",
                                                         "{\"input_ids\":[{}]}",
                                                         "{\"input_ids\":[null]}",
                                                         "{\"input_ids\":[true]}",
                                                         "{\"input_ids\":{\"0\":1}}",
                                                         "{\"input_ids\":[256]}",
                                                         "{\"input_ids\":[-1]}",
                                                         "{\"input_ids\":[-100]}",
                                                         "{\"input_ids\":[1e30]}",
                                                         "{\"input_ids\":[18446744073709551615]}",
                                                         "{\"input_ids\":[1,2],\"labels\":[1]}",
                                                         "{\"input_ids\":[1],\"labels\":[256]}",
                                                         "{\"input_ids\":[1],\"labels\":[-1]}",
                                                         "{\"input_ids\":[1],\"input_ids\":[1]}",
                                                         "{\"labels\":[1]}",
                                                         nul,
                                                         std::string(100'000, '['),
                                                         "{\"x\":" + std::string(100'000, '[')}) {
    const Error error = error_of(
        [&] { rows(directory, "{\"text\":\"good\"}\n\n" + row + "\n{\"text\":\"good\"}\n"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << row.substr(0, 60);
    EXPECT_EQ(error.where(), directory / "rows.jsonl" + ":3") << error.what();
  }
}

using Mask = std::vector<std::uint8_t>;

TEST(JsonlDataTest, AMaskOfPaddingOnTheRightIsPaddingOnly) {
  const TempDirectory directory;
  const TokenRows padded =
      batch(rows(directory, R"({"input_ids":[1,2,3],"attention_mask":[1,1,0]})"), 1, 1);
  EXPECT_EQ(padded.labels, (Tokens{1, 2, -100, -100}));
  EXPECT_TRUE(padded.attention_mask.empty());
  EXPECT_TRUE(
      batch(rows(directory, R"({"input_ids":[1,2],"labels":[1,-100],"attention_mask":[1,0]})"), 1,
            1)
          .attention_mask.empty());
}

TEST(JsonlDataTest, TakesAnyMaskOfZerosAndOnes) {
  const TempDirectory directory;
  const TokenRows masked = batch(rows(directory, R"({"input_ids":[7,8,9],"attention_mask":[0,1,1]}
{"input_ids":[1,2,3]}
{"input_ids":[1,2,3],"attention_mask":[1,0,1],"labels":[1,2,3]})"),
                                 1, 3);
  EXPECT_EQ(masked.attention_mask, (Mask{0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(masked.labels, (Tokens{-100, 8, 9, -100, 1, 2, 3, -100, 1, 2, 3, -100}));
  EXPECT_TRUE(masked.position_ids.empty());
  for (const auto& [row, fact] : std::vector<std::pair<std::string, std::string>>{
           {R"({"input_ids":[1,2],"attention_mask":[1]})",
            "'attention_mask' has 1 value for 2 tokens"},
           {R"({"input_ids":[1,2],"labels":[1,2],"attention_mask":[1,1,1]})",
            "'attention_mask' has 3 values for 2 tokens"},
           {R"({"input_ids":[1,2],"attention_mask":[1,2]})",
            "attention_mask[1] = 2 is neither 0 nor 1"}}) {
    const Error error = error_of([&] { rows(directory, row); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << row;
    EXPECT_EQ(error.fact(), fact) << row;
  }
}

TEST(JsonlDataTest, TakesPositionsOfTheModel) {
  const TempDirectory directory;
  const TokenRows placed = batch(
      rows(directory, "{\"input_ids\":[1,2,3],\"position_ids\":[0,1,0]}\n{\"input_ids\":[4,5]}"), 1,
      2);
  EXPECT_EQ(placed.position_ids, (Tokens{0, 1, 0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(placed.labels, (Tokens{1, 2, 3, -100, 4, 5, -100, -100}));
  for (const std::string positions : {"[0]", "[0,-1]", "[0,2147483648]", "[0,1.5]"}) {
    EXPECT_EQ(error_of([&] {
                rows(directory, R"({"input_ids":[1,2],"position_ids":)" + positions + "}");
              }).kind(),
              ErrorKind::kInput);
  }
  TokenDataOptions options = options_of({directory / "rows.jsonl"}, 4);
  options.max_positions = 8;
  test::write_file(directory / "rows.jsonl", R"({"input_ids":[1,2],"position_ids":[7,8]})");
  EXPECT_EQ(error_of([&] { TokenData data(options); }).fact(),
            "position_ids[1] = 8 is not one of the model's 8 positions");
}

TEST(JsonlDataTest, SaysHowLongRowsAreWhereThatDecidesTheirMicrobatch) {
  const TempDirectory directory;
  test::write_file(directory / "rows.jsonl",
                   "{\"input_ids\":[1,2,3]}\n{\"input_ids\":[4],\"labels\":[-100]}\n"
                   "{\"input_ids\":[5,6,7,8],\"attention_mask\":[1,1,0,0]}\n");
  TokenDataOptions options = options_of({directory / "rows.jsonl"}, 6);
  EXPECT_TRUE(TokenData(options).read({0}, 3).lengths.empty());
  options.data.pad = Padding::kLongest;
  const TokenRows rows = TokenData(options).read({0}, 3);
  EXPECT_EQ(rows.lengths, (std::vector<std::int64_t>{3, 1, 2}));
  EXPECT_EQ(rows.seq_len, 6);
  EXPECT_EQ(rows.counted_labels(0, 3), 3);
  options.data.files = {directory / "a.txt"};
  test::write_file(directory / "a.txt", "abcdefghijkl");
  EXPECT_EQ(TokenData(options).read({0}, 2).lengths, (std::vector<std::int64_t>{6, 6}));
}

TEST(JsonlDataTest, APromptOfBytesIsNotCounted) {
  const TempDirectory directory;
  const TokenRows answered = batch(rows(directory, R"({"prompt":"ab","completion":"c"})"), 1, 1);
  EXPECT_EQ(answered.ids, (Tokens{'a', 'b', 'c', 0}));
  EXPECT_EQ(answered.labels, (Tokens{-100, -100, 'c', -100}));
}

TEST(JsonlDataTest, FieldsOfConversationsMatterOnlyWhereTheyAreUsed) {
  const TempDirectory directory;
  const std::string strange = R"(, "messages": 7, "prompt": [1], "completion": {"a": [[]]}})";
  EXPECT_EQ(batch(rows(directory, R"({"text": "ab")" + strange), 1, 1).ids,
            (Tokens{'a', 'b', 0, 0}));
  for (const std::string& row : std::vector<std::string>{
           R"({"messages": 7})", R"({"messages": "a"})", R"({"messages": []})",
           R"({"messages": [7]})", R"({"messages": [[]]})", R"({"messages": [{}]})",
           R"({"messages": [{"role": "user"}]})", R"({"messages": [{"content": "a"}]})",
           R"({"messages": [{"role": 1, "content": "a"}]})",
           R"({"messages": [{"role": "user", "content": null}]})",
           R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})",
           R"({"messages": [{"role": "user", "content": ["a"]}]})",
           R"({"messages": [{"role": "user", "content": [{"text": "a"}]}]})",
           R"({"messages": [{"role": "user", "role": "user", "content": ""}]})",
           R"({"prompt": "a"})", R"({"completion": "a"})", R"({"prompt": "a", "completion": []})",
           R"({"prompt": [], "completion": []})", R"({"prompt": "", "completion": ""})"}) {
    test::write_file(directory / "rows.jsonl", row);
    TokenDataOptions options = options_of({directory / "rows.jsonl"}, 400);
    options.data.chat_template = ChatTemplate::kChatml;
    const Error error = error_of([&] { TokenData data(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << row;
    EXPECT_EQ(error.where(), directory / "rows.jsonl" + ":1") << row;
  }
}

TEST(JsonlDataTest, NeedsATokenizerOnlyForText) {
  const TempDirectory directory;
  test::write_file(directory / "tokenizer.json", "{}");
  test::write_file(directory / "ids.jsonl", "{\"input_ids\":[1,2],\"text\":\"ignored\"}\n");
  test::write_file(directory / "text.jsonl", "{\"text\":\"a\"}\n");
  TokenDataOptions options = options_of({directory / "ids.jsonl"}, 4);
  options.model_directory = directory.str();
  options.vocab_size = 3;
  EXPECT_EQ(TokenData(options).num_sequences(), 1);
  options.data.files = {directory / "text.jsonl"};
  EXPECT_EQ(error_of([&] { TokenData data(options); }).kind(), ErrorKind::kInput);
  options.data.tokenizer = "bytes";
  EXPECT_EQ(
      error_of([&] { TokenData data(options); }).fact(),
      "text becomes one token per byte, which needs a vocabulary of 256, but the model has 3");
}

TEST(JsonlDataTest, RefusesFilesWithoutRows) {
  const TempDirectory directory;
  for (const char* text : {"", "\n\n", "  \r\n\t"}) {
    EXPECT_EQ(error_of([&] { rows(directory, text); }).fact(), "the data has no rows");
  }
}

}  // namespace
}  // namespace sluice
