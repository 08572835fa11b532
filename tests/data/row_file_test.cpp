#include "data/row_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "data/jsonl_row.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/gzip_file.h"
#include "support/temp_directory.h"

namespace sluice::data {
namespace {

using test::error_of;
using test::gzipped;

class RowFileTest : public testing::Test {
 protected:
  std::string written(const std::string& name, const std::string& content) const {
    test::write_file(folder_ / name, content);
    return folder_ / name;
  }
  static std::vector<std::string> rows_of(const std::string& path) {
    const RowFile rows(path);
    const auto file = rows.open();
    std::vector<std::string> all;
    for (std::uint64_t i = 0; i < rows.size(); ++i) all.push_back(rows.json(*file, i));
    EXPECT_EQ(first_row_of(path), all.empty() ? "" : all.front());
    return all;
  }
  static std::vector<std::string> places_of(const std::string& path) {
    const RowFile rows(path);
    const auto file = rows.open();
    std::vector<std::string> all;
    for (std::uint64_t i = 0; i < rows.size(); ++i)
      all.push_back(rows.place(*file, i).substr(path.size()));
    return all;
  }
  Error refused(const std::string& content) const {
    const std::string path = written("bad.json", content);
    Error error = error_of([&] { RowFile rows(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << content;
    EXPECT_FALSE(error.remedy().empty()) << content;
    return error;
  }

  const test::TempDirectory folder_;
};

const std::string kList = "\n [ {\"a\": \"]}\\\"\\\\\"} ,\n  {\"b\": [1,\n {\"c\": 2}]},{}\n]\n ";

TEST_F(RowFileTest, FindsTheObjectsOfAList) {
  const std::vector<std::string> rows = {"{\"a\": \"]}\\\"\\\\\"}", "{\"b\": [1,\n {\"c\": 2}]}",
                                         "{}"};
  const std::string path = written("rows.json", kList);
  EXPECT_EQ(rows_of(path), rows);
  EXPECT_EQ(places_of(path), (std::vector<std::string>{":2", ":3", ":4"}));
  EXPECT_EQ(rows_of(written("mark.json", "\xef\xbb\xbf[{}]")), std::vector<std::string>{"{}"});
  EXPECT_TRUE(rows_of(written("empty.json", "[ ]")).empty());
}

TEST_F(RowFileTest, FindsLinesInAnyFile) {
  const std::string path = written("rows.json", "\n{\"a\": 1}\n \t\n{\"b\": 2}");
  EXPECT_EQ(rows_of(path), (std::vector<std::string>{"{\"a\": 1}", "{\"b\": 2}"}));
  EXPECT_EQ(places_of(path), (std::vector<std::string>{":2", ":4"}));
}

// Longer than the blocks in which files are read.
TEST_F(RowFileTest, RowsMayCrossBlocks) {
  std::string list = "[", lines;
  std::vector<std::string> rows;
  for (int i = 0; i < 5; ++i) {
    rows.push_back("{\"text\": \"" + std::string((std::size_t{1} << 19) + 7919, '{') + "\"}");
    list += (i ? "," : "") + rows.back();
    lines += rows.back() + "\n";
  }
  EXPECT_EQ(rows_of(written("long.json", list + "]")), rows);
  EXPECT_EQ(rows_of(written("long.jsonl", lines)), rows);
  EXPECT_EQ(rows_of(written("long.json.gz", gzipped(list + "]"))), rows);
}

TEST_F(RowFileTest, OtherContentOfAListIsAnErrorWithItsLine) {
  const auto where = [&](const std::string& content) {
    return refused(content).where().substr((folder_ / "bad.json").size());
  };
  EXPECT_EQ(where("[\n1]"), ":2");
  EXPECT_EQ(where("[{},\n]"), ":2");
  EXPECT_EQ(where("[{}\n{}]"), ":2");
  EXPECT_EQ(where("[{}]\n[{}]"), ":2");
  EXPECT_EQ(where("[{},\n{\"a\": 1"), ":2");
  EXPECT_NE(refused("[{}").fact().find("no end"), std::string::npos);
  EXPECT_NE(refused("[[{}]]").fact().find("'['"), std::string::npos);
}

TEST_F(RowFileTest, UnpacksSeveralMembers) {
  const std::string first = "{\"a\": 1}\n", second = "{\"b\": 2}\n";
  const std::vector<std::string> rows = {"{\"a\": 1}", "{\"b\": 2}"};
  EXPECT_EQ(rows_of(written("one.jsonl.gz", gzipped(first + second))), rows);
  EXPECT_EQ(rows_of(written("two.jsonl.gz", gzipped(first) + gzipped(second))), rows);
  EXPECT_EQ(rows_of(written("pad.jsonl.gz", gzipped(first + second) + std::string(99, '\0'))),
            rows);
  EXPECT_EQ(RowFile(folder_ / "two.jsonl.gz").num_bytes(), first.size() + second.size());
  EXPECT_EQ(places_of(folder_ / "two.jsonl.gz"), (std::vector<std::string>{":1", ":2"}));
}

TEST_F(RowFileTest, WithoutATemporaryFolderThereIsAWayOut) {
  const std::string path = written("a.jsonl.gz", gzipped("{}"));
  const char* const before = std::getenv("TMPDIR");
  const std::string folder = before ? before : "";
  setenv("TMPDIR", (folder_ / "none").c_str(), 1);
  const Error error = error_of([&] { RowFile rows(path); });
  if (before)
    setenv("TMPDIR", folder.c_str(), 1);
  else
    unsetenv("TMPDIR");
  EXPECT_NE(error.fact().find("cannot be unpacked"), std::string::npos) << error.fact();
  EXPECT_EQ(error.where(), path);
  EXPECT_NE(error.remedy().find("TMPDIR"), std::string::npos);
}

TEST_F(RowFileTest, ADamagedFileIsRefused) {
  std::string packed = gzipped("{\"a\": 1}\n{\"b\": \"a longer row, so that bytes can change\"}\n");
  for (std::size_t size = 4; size + 1 < packed.size(); size += 7)
    EXPECT_NE(refused(packed.substr(0, size)).fact().find("too early"), std::string::npos) << size;
  EXPECT_NE(refused(packed + "more").fact().find("damaged"), std::string::npos);
  packed[packed.size() - 6] ^= 1;  // of the checksum
  EXPECT_NE(refused(packed).fact().find("damaged"), std::string::npos);
}

}  // namespace
}  // namespace sluice::data
