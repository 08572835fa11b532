// The preloaded library sees every call, and its faults do what its log reports.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "support/file_system_model.h"
#include "watched_run.h"

namespace sluice::testing {
namespace {

using test::FileCall;

class FaultPreloadTest : public WatchedRunTest {
 protected:
  ProgramResult probe(const Faults& faults) {
    fs::remove_all(out());
    fs::create_directories(out());
    return run_shell(environment(out(), faults, log()) + quoted_for_shell(FILE_PROBE) + " " +
                     quoted_for_shell(out()));
  }

  // Plays the logged calls.
  test::Tree played() const {
    test::FileSystemModel model(test::Tree{});
    for (const FileCall& call : calls()) model.play(call);
    return model.now();
  }

  long count_calls() {
    const ProgramResult result = probe({});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "");
    return static_cast<long>(calls().size());
  }
};

TEST_F(FaultPreloadTest, SeesEveryCallOfTheStandardLibraryAndOfThreads) {
  const long count = count_calls();
  EXPECT_EQ(difference(test::read_tree(out()), played()), "");
  std::set<std::string> names;
  std::set<long> threads;
  for (const FileCall& call : calls()) {
    names.insert(call.name);
    threads.insert(call.thread);
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"close", "fdatasync", "fsync", "ftruncate", "link", "mkdir",
                                   "open", "rename", "rmdir", "symlink", "unlink", "write"}));
  EXPECT_EQ(threads.size(), 5u);
  EXPECT_EQ(calls().back().number, count);
}

TEST_F(FaultPreloadTest, AKillBeforeACallLeavesExactlyTheCallsBeforeIt) {
  const long count = count_calls();
  for (long n = 1; n <= count; n += 3) {
    EXPECT_EQ(probe({.kill = n}).exit_code, 128 + SIGKILL);
    ASSERT_EQ(static_cast<long>(calls().size()), n - 1);
    ASSERT_EQ(difference(test::read_tree(out()), played()), "") << n;
  }
  EXPECT_EQ(probe({.kill = count + 1}).exit_code, 0);
}

TEST_F(FaultPreloadTest, TheCallThatIsToFailFailsAndChangesNothing) {
  const long count = count_calls();
  for (long n = 2; n <= count; n += 3) {
    const ProgramResult result = probe({.fail = std::to_string(n) + ":EIO"});
    EXPECT_EQ(result.exit_code, 0) << n;
    const std::vector<FileCall> recorded = calls();
    ASSERT_GE(static_cast<long>(recorded.size()), n);
    const FileCall& failed = recorded[static_cast<std::size_t>(n - 1)];
    EXPECT_EQ(failed.result, -1) << failed.text();
    EXPECT_EQ(failed.error, EIO) << failed.text();
    ASSERT_EQ(difference(test::read_tree(out()), played()), "") << failed.text();
  }
}

TEST_F(FaultPreloadTest, AFullDiskFailsWhatAsksForSpaceFromThenOn) {
  const ProgramResult result = probe({.fail = "1+:ENOSPC"});
  EXPECT_NE(result.out, "");
  for (const FileCall& call : calls()) {
    const bool asks = call.name == "write" || call.name == "mkdir" || call.name == "rename";
    const bool gives = call.name == "close" || call.name == "unlink" || call.name == "rmdir";
    if (asks || gives) {
      EXPECT_EQ(call.error == ENOSPC, asks) << call.text();
    }
  }
  EXPECT_TRUE(test::read_tree(out()).empty());
}

TEST_F(FaultPreloadTest, AShortWriteWritesHalf) {
  count_calls();
  const std::vector<FileCall> whole = calls();
  long shortened = 0;
  for (const FileCall& call : whole) {
    if (call.name != "write" || call.thread != whole.front().thread) continue;
    ++shortened;
    probe({.shortened = call.number});
    const std::vector<FileCall> recorded = calls();
    const FileCall& half = recorded[static_cast<std::size_t>(call.number - 1)];
    EXPECT_EQ(half.result, (call.result + 1) / 2) << half.text();
    ASSERT_EQ(difference(test::read_tree(out()), played()), "") << half.text();
  }
  EXPECT_GT(shortened, 5);
}

TEST_F(FaultPreloadTest, OtherFoldersAreLeftAlone) {
  fs::create_directories(out());
  const std::string other = folder_ / "other";
  fs::create_directories(other);
  const ProgramResult result =
      run_shell(environment(out(), {.kill = 1}, log()) + quoted_for_shell(FILE_PROBE) + " " +
                quoted_for_shell(other));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(calls().empty());
  EXPECT_FALSE(test::read_tree(other).empty());
}

}  // namespace
}  // namespace sluice::testing
