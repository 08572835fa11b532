#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/key_hash.h"
#include "data/sequence_order.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::TempDirectory;
using Tokens = std::vector<std::int32_t>;

std::string row_of(const Tokens& ids) {
  std::string text = "{\"input_ids\":[";
  for (std::size_t i = 0; i < ids.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(ids[i]);
  return text + "]}\n";
}

class PackedRowsTest : public testing::Test {
 protected:
  TokenDataOptions options(std::vector<std::string> names, std::int64_t seq_len) const {
    TokenDataOptions options;
    for (const std::string& name : names) options.data.files.push_back(folder_ / name);
    options.data.shuffle = false;
    options.data.pack = true;
    options.seq_len = seq_len;
    options.vocab_size = 1000;
    return options;
  }
  void write(const std::string& name, const std::string& text) const {
    test::write_file(folder_ / name, text);
  }
  const TempDirectory folder_;
};

TEST_F(PackedRowsTest, PutsWholeRowsTogetherAsLongAsTheyFit) {
  write("a.jsonl", row_of({1, 2}) + row_of({3, 4, 5}) + row_of({6}) + row_of({7, 8, 9, 10, 11}) +
                       "{\"input_ids\":[12,13],\"labels\":[-100,13]}\n");
  const TokenData data(options({"a.jsonl"}, 6));
  EXPECT_EQ(data.num_sequences(), 3);
  const TokenRows rows = data.read({0}, 3);
  EXPECT_EQ(rows.ids, (Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 12, 13, 0, 0, 0, 0}));
  EXPECT_EQ(rows.labels, (Tokens{-100, 2, -100, 4, 5, -100, -100, 8, 9, 10, 11, -100, -100, 13,
                                 -100, -100, -100, -100}));
  EXPECT_EQ(rows.position_ids, (Tokens{0, 1, 0, 1, 2, 0, 0, 1, 2, 3, 4, 0, 0, 1, 0, 1, 2, 3}));
  EXPECT_TRUE(rows.attention_mask.empty());
  EXPECT_EQ(data.step_share(1, 3, {0, 1}).total_counted, 3 + 4 + 1);
}

TEST_F(PackedRowsTest, LongRowsAreCutOrRefusedAsOthersAre) {
  write("a.jsonl", row_of({1}) + row_of({2, 3, 4, 5, 6}));
  TokenDataOptions packed = options({"a.jsonl"}, 4);
  EXPECT_EQ(error_of([&] { TokenData data(packed); }).where(), folder_ / "a.jsonl" + ":2");
  packed.data.truncate = true;
  EXPECT_EQ(TokenData(packed).read({0}, 2).ids, (Tokens{1, 0, 0, 0, 2, 3, 4, 5}));
}

TEST_F(PackedRowsTest, RowsThatCannotBeToldApartAreRefused) {
  write("a.jsonl", row_of({1}) + R"({"input_ids":[1,2],"attention_mask":[0,1]})");
  EXPECT_NE(error_of([&] { TokenData data(options({"a.jsonl"}, 4)); }).fact().find("hides tokens"),
            std::string::npos);
  write("a.jsonl", R"({"input_ids":[1,2],"position_ids":[1,2]})");
  EXPECT_NE(error_of([&] { TokenData data(options({"a.jsonl"}, 4)); }).fact().find("start at 1"),
            std::string::npos);
  write("a.jsonl", R"({"input_ids":[1,2],"attention_mask":[1,0]})"
                   "\n"
                   R"({"input_ids":[1,2],"position_ids":[0,0]})");
  EXPECT_EQ(TokenData(options({"a.jsonl"}, 4)).read({0}, 1).position_ids, (Tokens{0, 0, 0, 0}));
}

TEST_F(PackedRowsTest, ForeseesAFileThatCountsNothing) {
  write("a.jsonl", row_of({1}) + row_of({2}) + row_of({3}));
  write("b.jsonl", row_of({1, 2}));
  EXPECT_EQ(error_of([&] {
              TokenData(options({"a.jsonl", "b.jsonl"}, 4)).require_counted_labels(1, 1);
            }).where(),
            folder_ / "a.jsonl");
}

TEST_F(PackedRowsTest, EveryRowIsInOneSequence) {
  std::uint64_t state = 11;
  for (int trial = 0; trial < 20; ++trial) {
    std::string text;
    Tokens all;
    for (std::int32_t row = 0; row < 60; ++row) {
      const Tokens ids(1 + next_bits(state) % 9, row + 1);
      text += row_of(ids);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    write("a.jsonl", text);
    const TokenData data(options({"a.jsonl"}, 9));
    const TokenRows rows = data.read({0}, data.num_sequences());
    Tokens found = rows.ids;
    std::erase(found, 0);
    EXPECT_EQ(found, all);
    for (std::size_t i = 0; i < rows.ids.size(); ++i) {
      const bool begins = i % 9 == 0 || rows.ids[i] != rows.ids[i - 1];
      EXPECT_EQ(rows.position_ids[i] == 0, begins) << i;
      if (begins) {
        EXPECT_EQ(rows.labels[i], -100);
      }
    }
  }
}

class MixedDataTest : public PackedRowsTest {
 protected:
  MixedDataTest() {
    std::string rows;
    for (int i = 0; i < 7; ++i) rows += row_of({500 + i, 1});
    write("a.jsonl", rows);
    std::string text;
    for (int i = 0; i < 40; ++i) text += {static_cast<char>(i + 1), 1};
    write("b.txt", text);
    write("c.txt", std::string("\x64\x01\x65\x01", 4));
  }
  TokenDataOptions mixed(bool shuffle) const {
    TokenDataOptions mixed = options({"a.jsonl", "b.txt", "c.txt"}, 2);
    mixed.data.pack = false;
    mixed.data.shuffle = shuffle;
    mixed.data.weights = {1, 3};
    mixed.files_per_entry = {1, 2};
    return mixed;
  }
  static Tokens firsts(const TokenRows& rows) {
    Tokens ids;
    for (std::size_t i = 0; i < rows.ids.size(); i += 2) ids.push_back(rows.ids[i]);
    return ids;
  }
};

TEST_F(MixedDataTest, EachEntryHasItsShareAndItsFormat) {
  const TokenData data(mixed(false));
  EXPECT_EQ(data.num_sequences(), 7 + 42);
  const Tokens ids = firsts(data.read({0}, 56));
  std::map<std::int32_t, int> of_rows;
  int rows = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 500) {
      EXPECT_EQ(ids[i], 500 + rows++ % 7) << "in order";
      ++of_rows[ids[i]];
    }
    EXPECT_LE(std::abs(4 * rows - static_cast<int>(i + 1)), 4 - 1) << i;
  }
  EXPECT_EQ(rows, 14);
  for (const auto& [id, times] : of_rows) EXPECT_EQ(times, 2) << id;
}

TEST_F(MixedDataTest, WithoutWeightsEveryEntryIsReadOnceInOrder) {
  TokenDataOptions once = mixed(false);
  once.data.weights.clear();
  const Tokens ids = firsts(TokenData(once).read({0}, 49));
  EXPECT_EQ(ids.front(), 500);
  EXPECT_EQ(ids[7], 1);
  EXPECT_EQ(ids.back(), 0x65);
}

TEST_F(MixedDataTest, RefusesWeightsThatFitNoEntries) {
  const auto refusal = [&](std::vector<double> weights, std::vector<std::int64_t> entries) {
    TokenDataOptions wrong = mixed(false);
    wrong.data.weights = std::move(weights);
    wrong.files_per_entry = std::move(entries);
    return error_of([&] { TokenData data(wrong); }).kind();
  };
  EXPECT_EQ(refusal({1}, {1, 2}), ErrorKind::kUsage);
  EXPECT_EQ(refusal({1, 2}, {}), ErrorKind::kUsage);
  EXPECT_EQ(refusal({1, 0}, {1, 2}), ErrorKind::kUsage);
  EXPECT_EQ(refusal({1, -1}, {1, 2}), ErrorKind::kUsage);
  EXPECT_EQ(refusal({1, std::nan("")}, {1, 2}), ErrorKind::kUsage);
  EXPECT_EQ(refusal({1, 1}, {3, 0}), ErrorKind::kUsage);
  EXPECT_EQ(refusal({1, 1}, {1, 1}), ErrorKind::kUsage);
  EXPECT_EQ(refusal({1, 1}, {2, 1}), ErrorKind::kUsage) << "two formats in an entry";
}

TEST_F(MixedDataTest, EverySequenceIsUsedOnceOverRestartsAndReplicas) {
  std::uint64_t state = 3;
  for (const bool pack : {false, true}) {
    for (int trial = 0; trial < 30; ++trial) {
      TokenDataOptions all = mixed(true);
      all.seed = trial;
      all.data.pack = pack;
      const Tokens expected = TokenData(all).read({0}, 200).ids;
      Tokens found;
      StepsDone done;
      while (found.size() < 300) {
        const TokenData data(all);
        const auto replicas = static_cast<std::int64_t>(1 + next_bits(state) % 4);
        const auto each = static_cast<std::int64_t>(1 + next_bits(state) % 3);
        const auto steps = static_cast<std::int64_t>(1 + next_bits(state) % 4);
        const std::int64_t batch = replicas * each, begin = done.steps;
        for (std::int64_t step = begin + 1; step <= begin + steps; ++step) {
          std::vector<BatchRange> ranges;
          for (std::int64_t replica = 0; replica < replicas; ++replica)
            ranges.push_back({replica * each, each});
          const std::vector<StepShare> together = data.step_shares(step, batch, ranges, done);
          for (std::int64_t replica = 0; replica < replicas; ++replica) {
            const StepShare share = data.step_share(step, batch, ranges[replica], done);
            EXPECT_EQ(share.rows.ids, together[replica].rows.ids);
            EXPECT_EQ(share.rows.labels, together[replica].rows.labels);
            EXPECT_EQ(share.total_counted, together[replica].total_counted);
            found.insert(found.end(), share.rows.ids.begin(), share.rows.ids.end());
          }
        }
        done = {begin + steps, position_of_step(begin + steps + 1, batch, done)};
      }
      found.resize(300);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin())) << trial;
    }
  }
}

}  // namespace
}  // namespace sluice
