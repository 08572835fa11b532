#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

#include "io/check_writable.h"
#include "sluice/parts/hf_directory.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::list_directory;
using test::TempDirectory;
namespace fs = std::filesystem;

TEST(CheckWritableTest, AcceptsFoldersThatCanBeCreatedAndCreatesNothing) {
  const TempDirectory directory;
  EXPECT_NO_THROW(check_writable(directory.str()));
  EXPECT_NO_THROW(check_writable(directory / "not/yet/there/"));
  EXPECT_TRUE(list_directory(directory.str()).empty());
}

TEST(CheckWritableTest, RefusesADiskThatCannotTakeTheWeights) {
  const TempDirectory directory;
  EXPECT_NO_THROW(check_writable(directory / "new", ErrorKind::kCheckpoint, 1000));
  const Error error = error_of(
      [&] { check_writable(directory / "new", ErrorKind::kCheckpoint, std::uint64_t{1} << 60); });
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_NE(error.fact().find("needs 1024.00PiB, but its disk has "), std::string::npos)
      << error.what();
  EXPECT_TRUE(list_directory(directory.str()).empty());
}

TEST(CheckWritableTest, RefusesALimitOnFilesBelowTheLargest) {
  const TempDirectory directory;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_NO_THROW(check_writable(directory / "new", ErrorKind::kCheckpoint, 8192, 4096));
  const Error error =
      error_of([&] { check_writable(directory / "new", ErrorKind::kCheckpoint, 8192, 8192); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_NE(error.fact().find("the limit on the size of files is 4.00KiB, but "), std::string::npos)
      << error.what();
  EXPECT_NE(error.remedy().find("ulimit -f"), std::string::npos);
}

TEST(CheckWritableTest, RemovesWhatKilledProcessesLeftAndNothingThatHoldsSomething) {
  const TempDirectory directory;
  fs::create_directory(directory / ".sluice-probe-abcdef");
  test::write_file(directory / ".sluice-probe-ghijkl/file", "");
  check_writable(directory.str());
  EXPECT_EQ(test::list_directory(directory.str()), std::set<std::string>{".sluice-probe-ghijkl"});
}

TEST(CheckWritableTest, AFolderMayAppearWhileItLooks) {
  const TempDirectory directory;
  const std::string folder = directory / "made";
  std::atomic<int> turn = 0;
  std::thread other_process([&] {
    for (int i = 1; i <= 200; ++i) {
      while (turn < i) std::this_thread::yield();
      fs::create_directory(folder);
      turn = -i;
    }
  });
  for (int i = 1; i <= 200; ++i) {
    turn = i;
    const auto look = std::chrono::steady_clock::now() + std::chrono::nanoseconds(50 * (i % 200));
    while (std::chrono::steady_clock::now() < look) {
    }
    EXPECT_NO_THROW(check_writable(folder));
    while (turn != -i) std::this_thread::yield();
    fs::remove(folder);
  }
  other_process.join();
}

TEST(CheckWritableTest, NamesWhatStandsInTheWay) {
  const TempDirectory directory;
  test::write_file(directory / "file", "");
  fs::create_symlink("nowhere", directory / "dangling");
  for (const std::string& folder :
       {directory / "file", directory / "file/below", directory / "dangling/below",
        std::string("/proc/self/nowhere")}) {
    const Error error = error_of([&] { check_writable(folder); });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_NE(error.fact().find(folder), std::string::npos) << error.what();
    EXPECT_FALSE(error.where().empty());
  }
  EXPECT_EQ(error_of([&] { check_writable(directory / "file", ErrorKind::kUsage); }).kind(),
            ErrorKind::kUsage);
}

}  // namespace
}  // namespace sluice
