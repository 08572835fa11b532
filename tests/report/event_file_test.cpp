#include "report/event_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "sluice/error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

// Test vectors of RFC 3720, B.4.
TEST(EventFileTest, ChecksumIsThatOfTheStandard) {
  EXPECT_EQ(detail::crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(detail::crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(detail::crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// These bytes are what tensorboard 2.21 reads (tests/oracle/check_tensorboard.py).
TEST(EventFileTest, HasTheNumbersOfEveryStep) {
  const test::TempDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  test::write_file(path, R"({"step": 1, "loss": 2.5, "step_seconds": 0.5, "memory_bytes": [8, 16]})"
                         "\n");
  const EventFile file = events_of_metrics(path, 100);
  EXPECT_EQ(file.steps, 1);
  EXPECT_FALSE(file.cut_off);
  const auto scalar = [](const std::string& tag, const std::string& value) {
    const std::string inner =
        "\n" + std::string(1, static_cast<char>(tag.size())) + tag + "\x15" + value;
    return "\n" + std::string(1, static_cast<char>(inner.size())) + inner;
  };
  const std::string summary = scalar("loss", std::string("\0\0\x20\x40", 4)) +
                              scalar("memory_bytes/rank_0", std::string("\0\0\0\x41", 4)) +
                              scalar("memory_bytes/rank_1", std::string("\0\0\x80\x41", 4)) +
                              scalar("step_seconds", std::string("\0\0\0\x3f", 4));
  const std::string wall_begin("\x09\0\0\0\0\0\xe0\x58\x40", 9);  // 99.5
  const std::string wall_end("\x09\0\0\0\0\0\0\x59\x40", 9);      // 100
  EXPECT_EQ(file.bytes,
            detail::tf_record(wall_begin + std::string("\x10\0\x1a\x0d", 4) + "brain.Event:2") +
                detail::tf_record(wall_end + "\x10\x01\x2a" +
                                  std::string(1, static_cast<char>(summary.size())) + summary));
}

TEST(EventFileTest, PassesOverALineThatIsHalfWritten) {
  const test::TempDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  test::write_file(path, "{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"lo");
  EXPECT_TRUE(events_of_metrics(path, 0).cut_off);
  EXPECT_EQ(events_of_metrics(path, 0).steps, 1);
}

TEST(EventFileTest, NamesWhatItCannotRead) {
  const test::TempDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  const auto expect_refused = [&](const std::string& where) {
    try {
      events_of_metrics(path, 0);
      ADD_FAILURE() << where;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_EQ(error.where(), where);
    }
  };
  expect_refused(path);
  test::write_file(path, "");
  expect_refused(path);
  test::write_file(path, "{\"step\": 1}\nnonsense\n{\"step\": 2}\n");
  expect_refused(path + ":2");
}

TEST(EventFileTest, RefusesALineThatNoRunWrote) {
  const test::TempDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  test::write_file(path, "{\"step\": 1}\n");
  std::error_code no_room;
  std::filesystem::resize_file(path, std::uintmax_t{1} << 42, no_room);
  if (no_room) GTEST_SKIP() << "the file system has no files of this size";
  try {
    events_of_metrics(path, 0);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.where(), path + ":2");
  }
}

}  // namespace
}  // namespace sluice
