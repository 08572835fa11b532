#include "archive/zip_file.h"

#include <gtest/gtest.h>

#include "archive/zip_writer.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::detail {
namespace {

using test::error_of;
using test::zip_bytes;
using test::zip_of;
using test::ZipPart;

Error refused(const std::string& bytes) {
  const Error error = error_of([&] { zip_of(bytes); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
  EXPECT_TRUE(error.where().starts_with("a.pt2")) << error.what();
  EXPECT_FALSE(error.remedy().empty()) << error.what();
  return error;
}

Error refused(const std::vector<ZipPart>& parts, const test::ZipShape& shape = {}) {
  return refused(zip_bytes(parts, shape));
}

TEST(ZipFileTest, ReadsStoredEntriesWhereTheyLie) {
  for (const bool is_64 : {false, true}) {
    const std::string bytes =
        zip_bytes({{.name = "m/b", .content = "second", .padding = 40, .is_64 = is_64},
                   {.name = "m/a", .content = "first", .is_64 = is_64},
                   {.name = "m/c", .content = ""}},
                  {.is_64 = is_64, .comment = "a comment PK\5\6 that is none"});
    const ZipFile zip = zip_of(bytes);
    ASSERT_EQ(zip.entries().size(), 3u);
    EXPECT_EQ(zip.entries()[0].name, "m/a");
    for (const ZipEntry& entry : zip.entries())
      EXPECT_EQ(zip.read(entry, 100), bytes.substr(entry.offset, entry.bytes));
    EXPECT_EQ(zip.read(*zip.find("m/b"), 6), "second");
    EXPECT_EQ(zip.find("m/c")->bytes, 0u);
    EXPECT_EQ(zip.find("m"), nullptr);
    EXPECT_EQ(zip.find("m/d"), nullptr);
    EXPECT_EQ(
        error_of([&] { zip.read(*zip.find("m/b"), 5); }).what(),
        std::string("the entry has 6 bytes, beyond the limit of 5; a.pt2, entry 'm/b'; export a "
                    "smaller model"));
  }
}

TEST(ZipFileTest, ReadsAFileAndAnEmptyOne) {
  const test::TempDirectory folder;
  test::write_file(folder / "a.pt2", zip_bytes({{.name = "x", .content = "content"}}));
  const ZipFile zip = ZipFile::open(folder / "a.pt2");
  EXPECT_EQ(zip.read(*zip.find("x"), 100), "content");
  EXPECT_EQ(zip.name(), folder / "a.pt2");
  const std::string none = zip_bytes({});
  EXPECT_TRUE(zip_of(none).entries().empty());
  EXPECT_EQ(error_of([&] { ZipFile::open(folder / "missing.pt2"); }).kind(), ErrorKind::kInput);
}

TEST(ZipFileTest, HasTheChecksumOfZipFiles) {
  EXPECT_EQ(zip_checksum("123456789"), 0xCBF43926u);
  EXPECT_EQ(zip_checksum(""), 0u);
  const std::string bytes = zip_bytes({{.name = "x", .content = "content", .crc = 1}});
  const ZipFile zip = zip_of(bytes);
  EXPECT_EQ(error_of([&] { zip.read(*zip.find("x"), 100); }).fact(),
            "the entry's bytes do not match their checksum in the directory");
}

TEST(ZipFileTest, RefusesWhatIsNoZipFileAndEveryTruncatedOne) {
  EXPECT_EQ(refused(std::string()).fact(),
            "not a zip file, or cut off: it has no directory at its end");
  refused(std::string(100000, 'P'));
  for (const bool is_64 : {false, true}) {
    const std::string whole = zip_bytes(
        {{.name = "x", .content = "content", .is_64 = is_64}, {.name = "y"}}, {.is_64 = is_64});
    for (std::size_t length = 0; length < whole.size(); ++length) refused(whole.substr(0, length));
    for (std::size_t begin = 1; begin < whole.size(); ++begin) refused(whole.substr(begin));
    refused(whole + "x");
  }
}

TEST(ZipFileTest, RefusesPackedAndEncryptedEntries) {
  EXPECT_EQ(refused({{.name = "x", .content = "content", .method = 8}}).what(),
            std::string("the entry is compressed; a.pt2, entry 'x'; keep the archive as "
                        "torch.export.save writes it"));
  EXPECT_EQ(refused({{.name = "x", .content = "content", .packed = 3}}).fact(),
            "the entry is compressed");
  for (const std::uint16_t flags : {1, 1 << 6, 1 << 13})
    EXPECT_EQ(refused({{.name = "x", .content = "content", .flags = flags}}).fact(),
              "the entry is encrypted");
  // The central directory marks the entry as stored, but the local header contradicts it.
  std::string bytes = zip_bytes({{.name = "x", .content = "content"}});
  bytes[8] = 8;
  EXPECT_EQ(refused(bytes).fact(), "the entry is compressed");
  bytes[8] = 0;
  bytes[6] = 1;
  EXPECT_EQ(refused(bytes).fact(), "the entry is encrypted");
}

TEST(ZipFileTest, RefusesDoubledAndNamelessEntries) {
  EXPECT_EQ(
      refused({{.name = "x", .content = "1"}, {.name = "y"}, {.name = "x", .content = "2"}}).what(),
      std::string("two entries have this name; a.pt2, entry 'x'; copy the file again or "
                  "export the model again"));
  EXPECT_EQ(refused({{.name = "", .content = "1"}}).fact(), "the entry has no name");
  EXPECT_EQ(refused({{.name = std::string("a\0b", 3), .content = "1"}}).fact(),
            "the entry has no name");
  EXPECT_EQ(refused({{.name = "x", .content = "1", .local_name = "y"}}).fact(),
            "the entry's header and the directory name it differently");
}

TEST(ZipFileTest, RefusesEntriesInEachOther) {
  EXPECT_EQ(
      refused({{.name = "x", .content = "content"}, {.name = "y", .content = "b", .offset = 0}})
          .fact(),
      "the entry overlaps another");
  const std::string inner = zip_bytes({{.name = "y", .content = "b"}}).substr(0, 32);
  EXPECT_EQ(refused({{.name = "x", .content = inner}, {.name = "y", .content = "b", .offset = 31}})
                .fact(),
            "the entry overlaps another");
  EXPECT_EQ(refused({{.name = "x", .content = "content", .bytes = 8}, {.name = "y"}}).fact(),
            "the entry overlaps another");
}

TEST(ZipFileTest, RefusesWildPlaces) {
  for (const std::int64_t offset : {1LL, 1000LL, 0xFFFFFFFELL})
    refused({{.name = "x", .content = "content", .offset = offset}});
  for (const std::int64_t offset :
       std::initializer_list<std::int64_t>{1LL << 32, 1LL << 62, INT64_MAX})
    refused({{.name = "x", .content = "content", .offset = offset, .is_64 = true}});
  for (const std::int64_t bytes : std::initializer_list<std::int64_t>{8LL, 1LL << 40, INT64_MAX}) {
    EXPECT_TRUE(refused({{.name = "x", .content = "content", .bytes = bytes, .is_64 = true}})
                    .fact()
                    .find("reach beyond") != std::string::npos);
  }
  // 0xFFFFFFFF refers to 64-bit sizes, which are missing
  refused({{.name = "x", .content = "content", .bytes = 0xFFFFFFFF}});
  refused({{.name = "x", .content = "content", .disk = 1}});
}

TEST(ZipFileTest, RefusesWildDirectories) {
  const std::vector<ZipPart> parts = {{.name = "x", .content = "content"}};
  for (const bool is_64 : {false, true}) {
    for (const std::int64_t value : {0LL, 1LL, 1000LL, 0xFFFELL, 0xFFFFFFFELL}) {
      if (value != 1) refused(parts, {.is_64 = is_64, .directory_offset = value});
      refused(parts, {.is_64 = is_64, .directory_bytes = value});
      if (value != 1) refused(parts, {.is_64 = is_64, .entries = value});
    }
  }
  for (const std::int64_t value : std::initializer_list<std::int64_t>{1LL << 40, INT64_MAX}) {
    refused(parts, {.is_64 = true, .directory_offset = value});
    refused(parts, {.is_64 = true, .directory_bytes = value});
    refused(parts, {.is_64 = true, .entries = value});
  }
  // The end record refers to a 64-bit record, which is missing.
  std::string bytes = zip_bytes(parts);
  bytes.replace(bytes.size() - 6, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(refused(bytes).fact(), "the zip file lacks its 64-bit end record");
}

TEST(ZipFileTest, RefusesBytesThatNoEntryOwnsBeforeTheEnd) {
  for (const bool is_64 : {false, true}) {
    const std::string bytes = zip_bytes({{.name = "x", .content = "content"}}, {.is_64 = is_64});
    EXPECT_NE(refused(bytes + bytes).fact().find("end record"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice::detail
