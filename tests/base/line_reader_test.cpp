#include "base/line_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

struct Read {
  std::string text;
  bool has_end, is_too_long;
  bool operator==(const Read&) const = default;
};

std::vector<Read> all_lines(const std::string& path, std::size_t max_bytes) {
  const File file = File::open(path);
  LineReader reader(file, max_bytes);
  std::vector<Read> lines;
  while (const auto line = reader.next())
    lines.push_back({std::string(line->text), line->has_end, line->is_too_long});
  return lines;
}

TEST(LineReaderTest, GivesEveryLineAndSaysWhetherItEnds) {
  const test::TempDirectory folder;
  const std::string path = folder / "lines";
  // This line spans several read pieces.
  const std::string across(300'000, 'x');
  test::write_file(path, "one\n\n" + across + "\nlast");
  EXPECT_EQ(
      all_lines(path, 1'000'000),
      (std::vector<Read>{
          {"one", true, false}, {"", true, false}, {across, true, false}, {"last", false, false}}));
  test::write_file(path, "");
  EXPECT_TRUE(all_lines(path, 10).empty());
}

TEST(LineReaderTest, SkipsALineThatIsTooLongAndGoesOn) {
  const test::TempDirectory folder;
  const std::string path = folder / "lines";
  test::write_file(path, "12345\n123456\n" + std::string(700'000, 'x') + "\nabc\n1234567");
  EXPECT_EQ(all_lines(path, 5), (std::vector<Read>{{"12345", true, false},
                                                   {"", true, true},
                                                   {"", true, true},
                                                   {"abc", true, false},
                                                   {"", false, true}}));
}

TEST(LineReaderTest, NamesTheLineThatIsTooLong) {
  const test::TempDirectory folder;
  const std::string path = folder / "lines";
  test::write_file(path, "abc\n123456\n");
  const File file = File::open(path);
  LineReader reader(file, 5);
  EXPECT_EQ(reader.next_text(), "abc");
  EXPECT_EQ(reader.where(), path + ":1");
  const Error error = test::error_of([&] { reader.next_text(); });
  EXPECT_EQ(error.where(), path + ":2");
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
}

TEST(LineReaderTest, AHoleOfTerabytesIsRefusedAfterItsBound) {
  const test::TempDirectory folder;
  const std::string path = folder / "hole";
  test::write_file(path, "abc\n");
  std::error_code no_room;
  std::filesystem::resize_file(path, std::uintmax_t{1} << 42, no_room);
  if (no_room) GTEST_SKIP() << "the file system has no files of this size";
  const File file = File::open(path);
  LineReader reader(file, 1000);
  EXPECT_EQ(reader.next_text(), "abc");
  EXPECT_EQ(test::error_of([&] { reader.next(); }).where(), path + ":2");
}

}  // namespace
}  // namespace sluice
