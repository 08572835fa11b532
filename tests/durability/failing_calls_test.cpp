// A failing call must give one error line, leave the old checkpoint untouched, and leave no partial
// files.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "watched_run.h"

namespace sluice::testing {
namespace {

using test::FileCall;

// True if a save cannot succeed without this call. It can without listing folders, locks, removing
// old files, and mkdir of the checkpoint folder, which exists already.
bool is_needed(const FileCall& call) {
  if (call.name == "mkdir" && call.path == ".") return false;
  static const std::set<std::string> kNeeded = {"write", "fsync", "fdatasync", "mkdir", "rename"};
  return kNeeded.contains(call.name) || (call.name == "open" && (call.flags & O_CREAT));
}

bool takes_away(const FileCall& call) {
  return call.name == "unlink" || call.name == "rmdir" ||
         (call.name == "open" && (call.flags & O_DIRECTORY));
}

const std::vector<std::string> kNextSave = {"--training.steps=3"};

class FailingCallsTest : public WatchedRunTest {
 protected:
  // Saves step 2 and records the next run without failures.
  void prepare(const std::vector<std::string>& next) {
    ASSERT_EQ(train_four({"--training.steps=2"}).exit_code, 0);
    keep_a_copy("before");
    const ProgramResult whole = watch(checkpoints(), {}, next);
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    keep_a_copy("clean");
    clean_calls_ = calls();
  }

  std::vector<long> chosen(std::size_t sample) const {
    return sampled_calls(clean_calls_, sample == 0 ? clean_calls_.size() : sample);
  }

  static std::string only_error_line(const ProgramResult& result) {
    std::istringstream lines(result.err);
    std::string found;
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("sluice: error: ")) continue;
      found = line;
      ++count;
    }
    EXPECT_EQ(count, 1) << result.err;
    return found;
  }

  void expect_old_untouched(const std::string& when) const {
    EXPECT_EQ(difference(test::read_tree((folder_ / "before") + "/checkpoint/" + step_name(2)),
                         test::read_tree(step_path(2))),
              "")
        << when;
  }

  void expect_nothing_half_written(const std::string& when) const {
    for (const std::string& name : test::list_directory(checkpoints()))
      EXPECT_FALSE(name.starts_with('.')) << when << name;
    const Listed found = listed();
    EXPECT_EQ(found.others, "") << when;
    EXPECT_TRUE(found.ok == (std::set<int>{2}) || found.ok == (std::set<int>{2, 3}))
        << when << ::testing::PrintToString(found.ok);
  }

  void fail_each(const std::string& error, int error_number, std::size_t sample) {
    prepare(kNextSave);
    for (const long n : chosen(sample)) {
      restore("before");
      const ProgramResult result =
          watch(checkpoints(), {.fail = std::to_string(n) + ":" + error}, kNextSave);
      const std::vector<FileCall> made = calls();
      const auto failed = std::find_if(made.begin(), made.end(), [&](const FileCall& call) {
        return call.number == n && call.error == error_number;
      });
      if (failed == made.end()) {  // this call allocates no space, so it did not fail
        EXPECT_EQ(result.exit_code, 0) << result.err;
        expect_same_as("clean", "");
        continue;
      }
      const std::string when = failed->text() + "\n";
      if (is_needed(*failed)) {
        EXPECT_EQ(result.exit_code, 4) << when << result.err;
      }
      if (result.exit_code != 0) {
        EXPECT_EQ(result.exit_code, 4) << when << result.err;
        EXPECT_FALSE(only_error_line(result).empty()) << when;
      }
      expect_old_untouched(when);
      if (!takes_away(*failed)) expect_nothing_half_written(when);
      const ProgramResult again = train_four(kNextSave);
      EXPECT_EQ(again.exit_code, 0) << when << again.err;
      expect_same_as("clean", when);
    }
  }

  std::vector<FileCall> clean_calls_;
};

TEST_F(FailingCallsTest, AnErrorOfTheDiskIsSaidAndLeavesTheOldCheckpoint) {
  fail_each("EIO", EIO, 4);
}

TEST_F(FailingCallsTest, AFullDiskIsSaidAndLeavesTheOldCheckpoint) {
  prepare(kNextSave);
  for (const long n : chosen(3)) {
    restore("before");
    const ProgramResult result =
        watch(checkpoints(), {.fail = std::to_string(n) + "+:ENOSPC"}, kNextSave);
    const std::vector<FileCall> made = calls();
    const bool failed = std::any_of(made.begin(), made.end(),
                                    [](const FileCall& call) { return call.error == ENOSPC; });
    const std::string when = "full from call " + std::to_string(n) + " on\n";
    EXPECT_EQ(result.exit_code, failed ? 4 : 0) << when << result.err;
    if (failed) {
      EXPECT_NE(only_error_line(result).find("No space left on device"), std::string::npos)
          << result.err;
    }
    expect_old_untouched(when);
    expect_nothing_half_written(when);
  }
}

TEST_F(FailingCallsTest, ADiskThatTurnsReadOnlyIsSaidAndTheNextRunCleansUp) {
  prepare(kNextSave);
  restore("before");
  const long half = static_cast<long>(clean_calls_.size() / 2);
  const ProgramResult result =
      watch(checkpoints(), {.fail = std::to_string(half) + "+:EROFS"}, kNextSave);
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(only_error_line(result).find("Read-only file system"), std::string::npos) << result.err;
  expect_old_untouched("");
  EXPECT_EQ(listed().ok, std::set<int>{2});
  EXPECT_EQ(train_four(kNextSave).exit_code, 0);
  expect_same_as("clean", "read-only");
}

TEST_F(FailingCallsTest, InterruptedAndShortWritesAreCarriedOn) {
  prepare(kNextSave);
  std::vector<long> writes;
  for (const FileCall& call : clean_calls_)
    if (call.name == "write" && call.bytes.size() > 1) writes.push_back(call.number);
  ASSERT_GT(writes.size(), 4u);
  // Ranks write in a different order each time, so call n may be another call in this run. Try more
  // calls until an interrupted and a shortened call were both hit.
  static const std::set<std::string> kCarriedOn = {"write", "fsync", "close"};
  int interrupted = 0, shortened = 0;
  for (std::size_t i = 0; i < writes.size() && (i < 2 || interrupted == 0 || shortened == 0); ++i) {
    const long n = writes[((i + 1) * writes.size() / 3 + i / 3) % writes.size()];
    restore("before");
    const ProgramResult result =
        watch(checkpoints(), {.fail = std::to_string(n) + ":EINTR"}, kNextSave);
    const FileCall call = calls()[static_cast<std::size_t>(n - 1)];
    if (kCarriedOn.contains(call.name) || (call.name == "open" && (call.flags & O_CREAT))) {
      EXPECT_EQ(result.exit_code, 0) << call.text() << "\n" << result.err;
      expect_same_as("clean", call.text());
      ++interrupted;
    }
    restore("before");
    EXPECT_EQ(watch(checkpoints(), {.shortened = n}, kNextSave).exit_code, 0);
    shortened += calls()[static_cast<std::size_t>(n - 1)].name == "write";
    expect_same_as("clean", "short");
  }
  EXPECT_GT(interrupted, 0);
  EXPECT_GT(shortened, 0);
}

TEST_F(FailingCallsTest, ARunThatMayGoOnSavesLater) {
  const std::vector<std::string> next = {"--training.steps=4", "--checkpoint.interval=1"};
  prepare(next);
  std::vector<std::string> going_on = next;
  going_on.push_back("--checkpoint.on_save_error=continue");
  long last = 0;  // last call of the save of step 3
  for (const FileCall& call : clean_calls_)
    if (call.name == "rename" && call.other == step_name(3)) last = call.number;
  ASSERT_GT(last, 10);
  for (const long n : {last / 2, last}) {
    restore("before");
    const ProgramResult result =
        watch(checkpoints(), {.fail = std::to_string(n) + ":EIO"}, going_on);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.err.find("sluice: warning: "), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("Input/output error"), std::string::npos) << result.err;
    const Listed found = listed();
    EXPECT_EQ(found.ok, (std::set<int>{2, 4}));
    EXPECT_EQ(found.others, "");
    EXPECT_EQ(difference(test::read_tree((folder_ / "clean") + "/checkpoint/" + step_name(4)),
                         test::read_tree(step_path(4))),
              "");
    EXPECT_EQ(what_was_computed(out()), what_was_computed(folder_ / "clean"));
  }
}

TEST_F(FailingCallsTest, ADiskThatIsFullLeavesWhatWasCommitted) {
  prepare({"--training.steps=3"});
  if (run_shell("unshare -m mount -t tmpfs none " + quoted_for_shell(checkpoints())).exit_code != 0)
    GTEST_SKIP() << "this user may not mount";
  restore("before");
  // Room for three and a half checkpoints.
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(step_path(2)))
    if (entry.is_regular_file()) bytes += entry.file_size();
  const std::string size = std::to_string(bytes * 7 / 2 / 1024) + "k";
  const std::string folder = quoted_for_shell(checkpoints());
  const ProgramResult result = run_shell(
      "unshare -m sh -c " +
      quoted_for_shell("mount -t tmpfs -o size=" + size + " none " + folder + " && cp -r " +
                       quoted_for_shell((folder_ / "before") + "/checkpoint/" + step_name(2)) +
                       " " + folder + " && " +
                       command(over_four_ranks({"--training.steps=9", "--checkpoint.interval=1",
                                                "--checkpoint.keep_latest_k=0"})) +
                       " >/dev/null; echo exit $? >&2; ls -A " + folder + " >&2; " +
                       command({"checkpoint", "list", checkpoints(), "--json"})));
  EXPECT_NE(only_error_line(result).find("No space left on device"), std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find("exit 4\n" + step_name(2) + "\n" + step_name(3) + "\n" + step_name(4) + "\n"),
      std::string::npos)
      << result.err;
  const Listed found = listed_in({0, result.out, ""});
  EXPECT_EQ(found.ok, (std::set<int>{2, 3, 4}));
  EXPECT_EQ(found.others, "");
}

TEST_F(FailingCallsTest, AFileLimitLeavesTheOldCheckpoint) {
  prepare(kNextSave);
  restore("before");
  // Larger than every weights file, smaller than the optimizer's files; in blocks of 512 bytes.
  std::uintmax_t weights = 0, largest = 0;
  for (const auto& entry : fs::recursive_directory_iterator(step_path(2))) {
    if (!entry.is_regular_file()) continue;
    largest = std::max(largest, entry.file_size());
    if (entry.path().parent_path() == step_path(2)) weights = std::max(weights, entry.file_size());
  }
  ASSERT_LT(weights + 2048, largest);
  const ProgramResult result =
      run_shell("ulimit -f " + std::to_string((weights + 1024) / 512) + "; " +
                command(over_four_ranks(kNextSave)) + " >/dev/null");
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_NE(only_error_line(result).find("ulimit -f"), std::string::npos) << result.err;
  expect_old_untouched("");
  expect_nothing_half_written("");
}

class FailingCallsSlowTest : public FailingCallsTest {};

TEST_F(FailingCallsSlowTest, EachCallWithAnErrorOfTheDisk) { fail_each("EIO", EIO, 0); }
TEST_F(FailingCallsSlowTest, EachCallThatAsksForSpace) { fail_each("ENOSPC", ENOSPC, 0); }

}  // namespace
}  // namespace sluice::testing
