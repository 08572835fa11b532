#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sluice/data.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::TempDirectory;

std::string two_tokens(int number) {
  const std::string text = std::to_string(number);
  return "{\"input_ids\": [" + text + ", " + text + "]}\n";
}

class HeldOutTest : public ::testing::Test {
 protected:
  HeldOutTest() {
    std::string first, second;
    for (int i = 1; i <= 30; ++i) first += two_tokens(i);
    for (int i = 31; i <= 50; ++i) second += two_tokens(i);
    options_.data.files = {write("first.jsonl", first), write("second.jsonl", second)};
    options_.seq_len = 2;
    options_.vocab_size = 256;
    options_.held_out = 0.2;
  }

  std::string write(const std::string& name, const std::string& text) {
    test::write_file(folder_ / name, text);
    return folder_ / name;
  }

  std::multiset<int> rows(DataPart part) {
    TokenDataOptions options = options_;
    options.part = part;
    const TokenData data(options);
    const TokenRows all = data.read({}, data.num_sequences());
    std::multiset<int> numbers;
    for (std::int64_t row = 0; row < all.num_rows; ++row) numbers.insert(all.ids[row * 2]);
    return numbers;
  }
  std::multiset<int> held_out() { return rows(DataPart::kHeldOut); }

  TempDirectory folder_;
  TokenDataOptions options_;
};

TEST_F(HeldOutTest, BothPartsTogetherAreAllRowsForEverySeed) {
  std::set<std::multiset<int>> choices;
  for (std::int64_t seed = 0; seed < 20; ++seed) {
    options_.seed = seed;
    const std::multiset<int> held_out = this->held_out();
    std::multiset<int> all = rows(DataPart::kTraining);
    EXPECT_EQ(held_out.size(), 10u);
    all.insert(held_out.begin(), held_out.end());
    EXPECT_EQ(all.size(), 50u);
    EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), 50u) << "disjoint";
    choices.insert(held_out);
  }
  EXPECT_EQ(choices.size(), 20u) << "every seed chooses other rows";
}

TEST_F(HeldOutTest, TheOrderOfRowsAndFilesDoesNotMatter) {
  const std::multiset<int> before = held_out();
  std::swap(options_.data.files[0], options_.data.files[1]);
  EXPECT_EQ(held_out(), before);
  std::string reversed;
  for (int i = 50; i >= 1; --i) reversed += two_tokens(i);
  options_.data.files = {write("reversed.jsonl", reversed)};
  EXPECT_EQ(held_out(), before);
}

TEST_F(HeldOutTest, ANumberOfRowsAndEntriesWithWeights) {
  options_.held_out = 7;
  EXPECT_EQ(held_out().size(), 7u);
  const std::multiset<int> before = held_out();
  options_.files_per_entry = {1, 1};
  EXPECT_EQ(held_out(), before);
  options_.held_out = 1;
  EXPECT_EQ(held_out().size(), 1u) << "the other entry holds nothing out";
}

TEST_F(HeldOutTest, EqualRowsAreHeldOutTogether) {
  std::string text;
  for (int i = 1; i <= 10; ++i) text += two_tokens(i) + two_tokens(i) + two_tokens(i);
  options_.data.files = {write("thrice.jsonl", text)};
  for (std::int64_t seed = 0; seed < 10; ++seed) {
    options_.seed = seed;
    const std::multiset<int> held_out = this->held_out();
    EXPECT_EQ(held_out.size(), 6u) << "of 30 rows, 0.2 of three each";
    for (const int number : rows(DataPart::kTraining)) EXPECT_EQ(held_out.count(number), 0u);
  }
}

TEST_F(HeldOutTest, RefusesPartsWithoutRows) {
  options_.held_out = 0.001;
  EXPECT_EQ(error_of([&] { rows(DataPart::kTraining); }).what(),
            std::string("`held_out` = 0.001 holds out 0 of 50 rows; `held_out`; hold out at least "
                        "one row, and leave at least one to train on"));
  options_.held_out = 50;
  EXPECT_EQ(error_of([&] { rows(DataPart::kHeldOut); }).kind(), ErrorKind::kUsage);
  options_.data.files = {write("same.jsonl", two_tokens(1) + two_tokens(1) + two_tokens(1))};
  options_.held_out = 1;
  const Error error = error_of([&] { rows(DataPart::kTraining); });
  EXPECT_NE(std::string(error.what()).find("leaves no row of"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace sluice
