#include "data/token_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "base/key_hash.h"
#include "data/fuzz/properties.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::TempDirectory;
using Tokens = std::vector<std::int32_t>;

template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

template <typename Id>
std::string llmc(const std::vector<Id>& ids, std::int32_t magic, std::int32_t version,
                 std::int32_t count) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of(header) + bytes_of(ids);
}

struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t type = 8;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> places, documents;
  std::string rest;
  std::uint64_t num_sequences = 0, num_entries = 0;  // 0: the true number

  std::string bytes() const {
    const std::uint64_t sequences = num_sequences > 0 ? num_sequences : lengths.size();
    const std::uint64_t entries = num_entries > 0 ? num_entries : documents.size();
    return magic + bytes_of<std::uint64_t>({version}) + bytes_of<std::uint8_t>({type}) +
           bytes_of<std::uint64_t>({sequences, entries}) + bytes_of(lengths) + bytes_of(places) +
           bytes_of(documents) + rest;
  }
};

// Sequences of 3, 2, 0 and 4 two-byte ids. The first document has the first two sequences, the
// second none, the third the other two.
Index good_index() {
  Index index;
  index.lengths = {3, 2, 0, 4};
  index.places = {0, 6, 10, 10};
  index.documents = {0, 2, 2, 4};
  return index;
}

class TokenFileTest : public testing::Test {
 protected:
  TokenDataOptions options(std::vector<std::string> names, std::int64_t seq_len = 2) const {
    TokenDataOptions options;
    for (const std::string& name : names) options.data.files.push_back(folder_ / name);
    options.data.shuffle = false;
    options.seq_len = seq_len;
    options.vocab_size = 100;
    return options;
  }
  Tokens ids(const TokenDataOptions& options) const {
    const TokenData data(options);
    return data.read({0}, data.num_sequences()).ids;
  }
  void write(const std::string& name, const std::string& bytes) const {
    test::write_file(folder_ / name, bytes);
  }
  void write_pair(const Index& index) const {
    write("a.bin", bytes_of<std::uint16_t>({1, 2, 3, 4, 5, 6, 7, 8, 9}));
    write("a.idx", index.bytes());
  }
  const TempDirectory folder_;
};

TEST_F(TokenFileTest, ReadsEachFormatAndKnowsIt) {
  write("llmc16.bin", llmc<std::uint16_t>({1, 2, 99}, 20240520, 1, 3));
  write("llmc32.bin", llmc<std::uint32_t>({4, 5, 6}, 20240801, 7, 3));
  write("nanogpt.bin", bytes_of<std::uint16_t>({7, 8, 9, 10}));
  write_pair(good_index());
  EXPECT_EQ(ids(options({"llmc16.bin"})), (Tokens{1, 2}));
  EXPECT_EQ(ids(options({"llmc16.bin", "llmc32.bin"})), (Tokens{1, 2, 99, 4, 5, 6}));
  EXPECT_EQ(ids(options({"nanogpt.bin"})), (Tokens{7, 8, 9, 10}));
  EXPECT_EQ(ids(options({"a.bin"}, 3)), (Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(ids(options({"a.idx"}, 3)), ids(options({"a.bin"}, 3)));
  const TokenData data(options({"llmc16.bin"}));
  EXPECT_EQ(data.num_bytes(), 1024 + 6);
  EXPECT_EQ(data.read({0}, 1).labels, (Tokens{1, 2}));
  EXPECT_FALSE(data.unigram_entropy());
}

TEST_F(TokenFileTest, ReadsEveryTypeOfMegatronsIds) {
  const auto expect_ids = [&](std::uint8_t type, const std::string& bytes, std::int64_t width) {
    write("t.bin", bytes);
    Index index;
    index.type = type;
    index.lengths = {1, 2};
    index.places = {0, width};
    index.documents = {0, 1, 2};
    index.rest = std::string("\0\0", 2);  // sequence modes
    write("t.idx", index.bytes());
    EXPECT_EQ(ids(options({"t.bin"}, 3)), (Tokens{1, 2, 3})) << int{type};
  };
  expect_ids(1, bytes_of<std::uint8_t>({1, 2, 3}), 1);
  expect_ids(2, bytes_of<std::int8_t>({1, 2, 3}), 1);
  expect_ids(3, bytes_of<std::int16_t>({1, 2, 3}), 2);
  expect_ids(4, bytes_of<std::int32_t>({1, 2, 3}), 4);
  expect_ids(5, bytes_of<std::int64_t>({1, 2, 3}), 8);
  expect_ids(8, bytes_of<std::uint16_t>({1, 2, 3}), 2);
}

TEST_F(TokenFileTest, AnIdOutsideOfTheVocabularyIsNamedWhenItIsRead) {
  write("n.bin", bytes_of<std::uint16_t>({1, 2, 3, 100}));
  const TokenData data(options({"n.bin"}));
  EXPECT_EQ(data.step_rows(1, 1).ids, (Tokens{1, 2}));
  const Error error = error_of([&] { data.step_rows(2, 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "id 100 is outside of the vocabulary of 100");
  EXPECT_EQ(error.where(), "step 2, " + folder_ / "n.bin" + ", token 3");
  TokenDataOptions signed_ids = options({"t.bin"});
  Index index;
  index.type = 5;
  index.lengths = {2};
  index.places = {0};
  index.documents = {0, 1};
  for (const std::int64_t bad :
       {std::int64_t{-1}, std::int64_t{1} << 32, std::numeric_limits<std::int64_t>::min()}) {
    write("t.bin", bytes_of<std::int64_t>({1, bad}));
    write("t.idx", index.bytes());
    EXPECT_THROW(TokenData(signed_ids).read({0}, 1), Error) << bad;
  }
}

TEST_F(TokenFileTest, ReadsOnlyTheBytesOfTheBatch) {
  write("n.bin", std::string(8'000'000, '\0'));
  const TokenData data(options({"n.bin"}, 100));
  std::filesystem::resize_file(folder_ / "n.bin", 1'000);
  EXPECT_EQ(data.read({0}, 5).ids, Tokens(500));
  EXPECT_THROW(data.read({5}, 1), Error);
}

TEST_F(TokenFileTest, RefusesHeadersThatDoNotFitTheFile) {
  const std::vector<std::uint16_t> three = {1, 2, 3};
  for (const std::string& bytes :
       {llmc(three, 20240520, 1, 2), llmc(three, 20240520, 1, 4), llmc(three, 20240520, 1, -1),
        llmc(three, 20240520, 2, 3), llmc(three, 20240801, 7, 3), llmc(three, 20240520, 7, 3),
        llmc(three, 20240520, 1, std::numeric_limits<std::int32_t>::max()),
        llmc(three, 20240520, 1, 3) + "x", llmc(three, 20240520, 1, 3).substr(0, 1023)}) {
    write("a.bin", bytes);
    const Error error = error_of([&] { TokenData data(options({"a.bin"})); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.where(), folder_ / "a.bin") << error.what();
  }
  TokenDataOptions said = options({"a.bin"});
  said.data.format = DataFormat::kLlmc;
  write("a.bin", std::string(2000, 'x'));
  EXPECT_EQ(error_of([&] { TokenData data(said); }).kind(), ErrorKind::kInput);
  write("a.bin", "abc");
  EXPECT_EQ(error_of([&] { TokenData data(options({"a.bin"})); }).fact(),
            "the file has 3 bytes, which is not a whole number of 16-bit ids");
}

TEST_F(TokenFileTest, RefusesAnIndexThatDoesNotFitItsIds) {
  write_pair(good_index());
  EXPECT_NO_THROW(TokenData(options({"a.bin"})));
  const auto refuses = [&](const auto& change, const std::string& fact) {
    Index index = good_index();
    change(index);
    write_pair(index);
    const Error error = error_of([&] { TokenData data(options({"a.bin"})); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << fact;
    EXPECT_EQ(error.where(), folder_ / "a.idx") << fact;
    EXPECT_NE(error.fact().find(fact), std::string::npos) << error.what();
  };
  refuses([](Index& i) { i.magic = "MMIDIDX\1\1"; }, "does not start like a Megatron .idx");
  refuses([](Index& i) { i.version = 2; }, "version 2");
  refuses([](Index& i) { i.type = 0; }, "type 0");
  refuses([](Index& i) { i.type = 6; }, "floating-point");
  refuses([](Index& i) { i.type = 7; }, "floating-point");
  refuses([](Index& i) { i.type = 9; }, "type 9");
  refuses([](Index& i) { i.num_sequences = 5; }, "bytes hold");
  refuses([](Index& i) { i.num_sequences = std::uint64_t{1} << 63; }, "bytes hold");
  refuses([](Index& i) { i.num_sequences = 0x1555555555555556ULL; }, "bytes hold");
  refuses([](Index& i) { i.num_entries = ~std::uint64_t{0}; }, "bytes hold");
  refuses([](Index& i) { i.num_entries = std::uint64_t{1} << 61; }, "bytes hold");
  refuses([](Index& i) { i.rest = "x"; }, "bytes hold");
  refuses([](Index& i) { i.lengths[1] = -1; }, "sequence 1 has length -1");
  refuses([](Index& i) { i.places[0] = 2; }, "sequence 0 is at byte 2");
  refuses([](Index& i) { i.places[1] = 4; }, "sequence 1 is at byte 4");
  refuses([](Index& i) { i.places[3] = -10; }, "sequence 3 is at byte -10");
  refuses([](Index& i) { i.lengths[3] = 5; }, "sequence 3 ends at byte 20 of 18");
  refuses([](Index& i) { i.lengths[3] = std::numeric_limits<std::int32_t>::max(); },
          "sequence 3 ends at byte");
  refuses([](Index& i) { i.documents[0] = 1; }, "entry 0 of the documents");
  refuses([](Index& i) { i.documents[2] = 1; }, "entry 2 of the documents is sequence 1 of 4");
  refuses([](Index& i) { i.documents[3] = 5; }, "entry 3 of the documents is sequence 5 of 4");
  refuses([](Index& i) { i.documents[3] = 3; }, "the documents end at sequence 3 of 4");
  refuses([](Index& i) { i.documents[1] = -1; }, "entry 1 of the documents");
  refuses(
      [](Index& i) {
        i.documents = {};
        i.num_entries = 0;
      },
      "the .idx names no document");
  for (std::size_t size = 0; size < good_index().bytes().size(); ++size) {
    write("a.idx", good_index().bytes().substr(0, size));
    EXPECT_EQ(error_of([&] { TokenData data(options({"a.bin"})); }).kind(), ErrorKind::kInput);
  }
  std::filesystem::remove(folder_ / "a.bin");
  EXPECT_EQ(error_of([&] { TokenData data(options({"a.idx"})); }).kind(), ErrorKind::kInput);
}

TEST_F(TokenFileTest, PacksMegatronsDocumentsApart) {
  write_pair(good_index());
  TokenDataOptions packed = options({"a.bin"}, 4);
  packed.data.pack = true;
  const TokenData data(packed);
  EXPECT_EQ(data.num_sequences(), 2);
  const TokenRows rows = data.read({0}, 2);
  EXPECT_EQ(rows.ids, (Tokens{1, 2, 3, 4, 5, 6, 7, 8}));
  // Documents start with ids 1 and 6. The second row starts inside the first document.
  EXPECT_EQ(rows.position_ids, (Tokens{0, 1, 2, 3, 0, 0, 1, 2}));
  EXPECT_EQ(rows.labels, (Tokens{-100, 2, 3, 4, 5, -100, 7, 8}));
  EXPECT_EQ(rows.counted_labels(0, 2), 3 + 2);
  EXPECT_EQ(data.step_share(1, 2, {0, 1}).total_counted, 5) << "also of rows of others";
  EXPECT_EQ(data.step_share(1, 2, {1, 1}).total_counted, 5);
}

// Changes single bits or bytes, so that counts, lengths and offsets become arbitrary.
std::string changed(std::string bytes, std::uint64_t& state) {
  for (std::uint64_t i = 0; i <= next_bits(state) % 3; ++i) {
    const std::size_t at = next_bits(state) % bytes.size();
    bytes[at] =
        static_cast<char>(next_bits(state) % 2 == 0 ? bytes[at] ^ (1 << next_bits(state) % 8)
                                                    : next_bits(state) % 256);
  }
  if (next_bits(state) % 8 == 0) bytes.resize(next_bits(state) % (bytes.size() + 1));
  return bytes;
}

TEST_F(TokenFileTest, MutatedFilesAreRejectedOrValid) {
  std::uint64_t state = 1;
  const std::string bin = bytes_of<std::uint16_t>({1, 2, 3, 4, 5, 6, 7, 8, 9});
  const std::string index = good_index().bytes();
  const std::string with_header = llmc<std::uint16_t>({1, 2, 3}, 20240520, 1, 3);
  ASSERT_TRUE(test::check_token_file(folder_, DataFormat::kMegatron, bin, index));
  ASSERT_TRUE(test::check_token_file(folder_, DataFormat::kLlmc, with_header, ""));
  int accepted = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    accepted +=
        test::check_token_file(folder_, DataFormat::kMegatron,
                               trial % 4 == 0 ? changed(bin, state) : bin, changed(index, state));
    // The reader uses only the first three numbers of llm.c's header.
    const std::string head = changed(with_header.substr(0, 12), state) + with_header.substr(12);
    test::check_token_file(folder_, DataFormat::kLlmc, head, "");
  }
  EXPECT_LT(accepted, 100) << "nearly every byte of an index counts";
}

TEST(RowTokensTest, WhateverChangesInARowItIsRefusedOrSound) {
  std::uint64_t state = 2;
  const std::vector<std::string> rows = {
      R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text",)"
      R"("text":"hi"}]},{"role":"assistant","content":"\n yes"}]})",
      R"({"prompt":"a b","completion":" c"})",
      R"({"input_ids":[1,2,3,4],"labels":[1,-100,3,4],"attention_mask":[0,1,1,0],)"
      R"("position_ids":[0,1,0,1]})"};
  int accepted = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    const auto chat_template = static_cast<ChatTemplate>(trial % 5);
    const std::string& row = rows[static_cast<std::size_t>(trial) % rows.size()];
    if (chat_template != ChatTemplate::kAuto) {
      ASSERT_TRUE(test::check_row_tokens(row, chat_template)) << row;
    }
    accepted += test::check_row_tokens(changed(row, state), chat_template);
  }
  EXPECT_GT(accepted, 60);
}

}  // namespace
}  // namespace sluice
