#include "data/file_content.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "data/data_format.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/gzip_file.h"
#include "support/temp_directory.h"

namespace sluice::data {
namespace {

using namespace std::string_literals;
using test::error_of;
using test::TempDirectory;

class FileContentTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    test::write_file(folder_ / name, bytes);
    return folder_ / name;
  }
  TokenDataOptions options(const std::string& file, DataFormat format) const {
    TokenDataOptions options;
    options.data.files = {file};
    options.data.format = format;
    options.data.tokenizer = "bytes";
    options.seq_len = 2;
    options.vocab_size = 65536;
    return options;
  }
  Error refused(const std::string& name, const std::string& bytes,
                DataFormat format = DataFormat::kAuto) const {
    const std::string file = write(name, bytes);
    Error error = error_of([&] { TokenData data(options(file, format)); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << name;
    return error;
  }
  void expect_taken(const std::string& name, const std::string& bytes,
                    DataFormat format = DataFormat::kAuto) const {
    const std::string file = write(name, bytes);
    EXPECT_NO_THROW(TokenData(options(file, format))) << name;
  }
  template <typename Number>
  static std::string bytes_of(const std::vector<Number>& numbers) {
    std::string bytes(numbers.size() * sizeof(Number), '\0');
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }

  const TempDirectory folder_;
};

TEST_F(FileContentTest, CompressedAndBinaryFilesAreRefusedByWhatTheyContain) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"\x1f\x8b\x08\0\0\0\0\0\0\3abc"s, "compressed by gzip"},
      {"\xfd"
       "7zXZ\0\0\4"s,
       "compressed by xz"},
      {"BZh91AY&SYabcdef"s, "compressed by bzip2"},
      {"\x28\xb5\x2f\xfd\4\0"s, "compressed by zstd"},
      {"\x04\x22\x4d\x18@"s, "compressed by lz4"},
      {"PK\3\4\x14\0"s, "a zip archive"},
      {"7z\xbc\xaf\x27\x1c\0\4"s, "a 7z archive"},
      {"Rar!\x1a\7\1\0"s, "a rar archive"},
      {std::string(257, 'a') + "ustar\0"s + "00", "a tar archive"},
      {"%PDF-1.7\n1 0 obj"s, "a PDF document"},
      {"PAR1\x15\4"s, "a Parquet file"},
      {"ARROW1\0\0"s, "an Arrow file"},
      {"FEA1\0\0"s, "a Feather file"},
      {"ORC\x0a\xff\xfe\xfd"s, "an ORC file"},
      {"Obj\1\4"s, "an Avro file"},
      {"\x93NUMPY\1\0"s, "a NumPy array"},
      {"\x80\4\x95\x10\0"s, "a pickle"},
      {"\x80\2}q\0"s, "a pickle"},
      {"\x89HDF\r\n\x1a\n"s, "an HDF5 file"},
      {"SQLite format 3\0"s, "an SQLite database"},
      {"GGUF\3\0\0\0"s, "a GGUF model"},
      {"\x40\0\0\0\0\0\0\0{\"a\":"s, "a safetensors file"},
      {"\x89PNG\r\n\x1a\n"s, "a PNG picture"},
      {"\xff\xd8\xff\xe0"s, "a JPEG picture"},
      {"RIFF\x24\0\0\0WAVEfmt "s, "a WAV file"},
      {"\x7f"
       "ELF\2\1"s,
       "a program"},
      {"\xff\xfe"
       "a\0b\0"s,
       "text in UTF-16"},
      {"\xfe\xff\0a\0b"s, "text in UTF-16"},
      {"h\0e\0l\0l\0o\0 \0w\0"s, "text in UTF-16"},
      {"some\0text"s, "byte 4 is NUL"},
      {"caf\xe9 au lait"s, "byte 3 begins no character"}};
  for (const auto& [bytes, name] : files) {
    for (const std::string file : {"a.txt", "a.unknown", "a.md"}) {
      for (const DataFormat format : {DataFormat::kAuto, DataFormat::kText}) {
        const Error error = refused(file, bytes, format);
        EXPECT_NE(error.fact().find(name), std::string::npos) << name << ": " << error.fact();
        EXPECT_EQ(error.remedy().find("as text"), std::string::npos) << error.remedy();
        EXPECT_FALSE(error.remedy().empty());
      }
    }
  }
  EXPECT_NE(refused("a.jsonl", files[0].first).fact().find("gzip"), std::string::npos);
}

TEST_F(FileContentTest, AFaultFarIntoATextIsFoundBeforeTraining) {
  for (const std::string& bad : {"\0"s, "\xff"s, "\xc3"s}) {
    const std::string text = std::string(3 << 20, 'x') + bad + "yy";
    EXPECT_NE(refused("a.txt", text).fact().find("byte 3145728 "), std::string::npos);
  }
  // A character that crosses two blocks of the reader is not an error.
  std::string text = "x";
  while (text.size() < (3 << 20)) text += "\xe4\xb8\x80\xf0\x9f\x98\x80";
  expect_taken("a.txt", text);
  expect_taken("a.txt", "\xef\xbb\xbftext with a byte order mark");
}

TEST_F(FileContentTest, JsonThatWouldBeReadAsTextIsRefused) {
  for (const std::string rows : {"{\"text\": \"one\"}\n{\"text\": \"two\"}\n", "{\"a\": 1}",
                                 "\n  {\"a\": 1}\r\n", "\xef\xbb\xbf{\"a\": 1}\n"}) {
    const Error error = refused("rows.txt", rows);
    EXPECT_NE(error.fact().find("rows of JSON"), std::string::npos) << error.fact();
    EXPECT_NE(error.remedy().find(".jsonl"), std::string::npos);
    expect_taken("rows.txt", rows, DataFormat::kText);
  }
  for (const std::string document :
       {"[{\"a\": 1}, {\"a\": 2}]\n", "[\n  {\"a\": 1},\n  {\"a\": 2}\n]\n",
        "{\n  \"cells\": [\n    1\n  ]\n}\n", "[1, 2, 3]\n[4]\n", "[\"a\", \"b\"]\n"}) {
    const Error error = refused("notebook.txt", document);
    EXPECT_NE(error.fact().find("holds JSON"), std::string::npos) << error.fact();
    EXPECT_NE(error.remedy().find(".json,"), std::string::npos);
  }
  std::string large = "[";
  while (large.size() < 100'000) large += "\n{\"text\": \"a row that is long\"},";
  refused("large.txt", large + "{}]");
  for (const std::string text : {"[1] a reference\n", "[1]\n", "{ no json }\n", "[ERROR] failed\n",
                                 "{{template}}\n", "\"quoted\"\n", "42\n", "{\n  int i = 0;\n}\n"})
    expect_taken("a.txt", text);
}

TEST_F(FileContentTest, EndingsOfRowsAreRows) {
  for (const std::string ending : {"jsonl", "ndjson", "jsonlines", "jl", "NDJSON", "json"}) {
    EXPECT_EQ(format_of("a." + ending, DataFormat::kAuto, ""), DataFormat::kJsonl);
    expect_taken("a." + ending, "{\"text\": \"ab\"}\n");
    EXPECT_EQ(format_of("a." + ending + ".gz", DataFormat::kAuto, ""), DataFormat::kJsonl);
    expect_taken("a." + ending + ".gz", test::gzipped("{\"text\": \"ab\"}\n"));
  }
}

TEST_F(FileContentTest, ARefusedTableNamesTheLineOfPythonThatConvertsIt) {
  const auto remedy = [&](const std::string& name, const std::string& bytes) {
    return refused(name, bytes).remedy();
  };
  EXPECT_NE(remedy("a.csv", "a,b\n1,2\n").find("csv.DictReader"), std::string::npos);
  EXPECT_NE(remedy("a.tsv", "a\tb\n1\t2\n").find("delimiter='\\t'"), std::string::npos);
  EXPECT_NE(remedy("a.parquet", "PAR1\x15\4").find("from_parquet('"), std::string::npos);
  EXPECT_NE(remedy("a.bin.txt", "PAR1\x15\4").find("from_parquet('"), std::string::npos);
  EXPECT_NE(remedy("a.arrow", "\xff\xff\xff\xff\x10\0"s).find("from_file('"), std::string::npos);
  EXPECT_NE(remedy("a.feather", "ARROW1\0\0"s).find("read_feather('"), std::string::npos);
  EXPECT_NE(remedy("a.jsonl.zst", "\x28\xb5\x2f\xfd\4\0"s).find("zstd -dk "), std::string::npos);
  EXPECT_NE(remedy("a.txt.gz", test::gzipped("a")).find("gzip -dk "), std::string::npos);
}

TEST_F(FileContentTest, TokenFilesThatHoldSomethingElseAreRefused) {
  std::vector<std::uint32_t> wide, large;
  std::vector<std::int64_t> wider;
  std::vector<std::uint16_t> narrow;
  for (std::uint32_t i = 0; i < 200; ++i) {
    wide.push_back(1 + i * 37 % 50257);
    large.push_back(i * 7919 % 150'000);
    wider.push_back(1 + i * 37 % 50257);
    narrow.push_back(static_cast<std::uint16_t>(i * 251 % 50257));
  }
  const auto fact = [&](const std::string& bytes) { return refused("a.bin", bytes).fact(); };
  EXPECT_NE(fact(bytes_of(wide)).find("ids of uint32"), std::string::npos);
  EXPECT_NE(fact(bytes_of(large)).find("ids of uint32"), std::string::npos);
  EXPECT_NE(fact(bytes_of(wider)).find("ids of int64"), std::string::npos);
  EXPECT_NE(fact("PK\3\4\x14\0"s + bytes_of(narrow)).find("a zip archive"), std::string::npos);
  EXPECT_NE(fact("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20"s).find("a pickle"), std::string::npos);
  EXPECT_NE(fact("\x1f\x8b\x08\0\0\0\0\0\0\3"s + bytes_of(narrow)).find("gzip"), std::string::npos);
  EXPECT_NE(fact("\x93NUMPY\1\0"s + bytes_of(narrow)).find("NumPy"), std::string::npos);
  EXPECT_NE(fact("\x40\0\0\0\0\0\0\0{\"a\":12}"s).find("safetensors"), std::string::npos);
  std::string words;
  while (words.size() < 100) words += "words and words\n";
  EXPECT_NE(fact(words).find("is text"), std::string::npos);
  refused("a.dat", bytes_of(wide), DataFormat::kNanogpt);
  expect_taken("a.bin", bytes_of(narrow));
  // Token ids are accepted even if they start like a pickle, gzip or UTF-16 file, or are all
  // character codes.
  for (const std::uint16_t first : {0x0280, 0x8b1f, 0xfeff}) {
    narrow.front() = first;
    expect_taken("a.bin", bytes_of(narrow));
  }
  for (std::uint16_t& id : narrow) id %= 65;
  expect_taken("a.bin", bytes_of(narrow));
  expect_taken("a.bin", std::string(400, '\0'));
}

TEST_F(FileContentTest, AGitLfsPointerIsNamedWhereverAFileIsRead) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') +
      "\nsize 17210037\n";
  for (const std::string name : {"a.txt", "a.jsonl", "a.bin", "a.parquet"})
    EXPECT_NE(refused(name, pointer).fact().find("a Git LFS pointer: run git lfs pull"),
              std::string::npos)
        << name;
  expect_taken("about.txt", "the line 'version https://git-lfs.github.com/spec/v1' in a text\n");
}

}  // namespace
}  // namespace sluice::data
