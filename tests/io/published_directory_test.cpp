#include "io/published_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::io {
namespace {

using test::error_of;
using test::list_directory;
using test::read_file;
using test::TempDirectory;
namespace fs = std::filesystem;

// Directories with a file "value" and a marker "done", which contains "done".
bool is_ours(std::string_view file) {
  return file == "value" || file == "done" || file == "folder/more";
}
bool is_committed(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path + "/done", ignored) && read_file(path + "/done") == "done";
}
constexpr DirectoryKind kKind = {"done", is_ours, is_committed};

std::string write_step(const std::string& path, const std::string& value,
                       Commit commit = Commit::kRename) {
  PublishedDirectory directory(path, commit, kKind);
  write_text(directory.working() + "/value", value);
  ensure_folder(directory.working() + "/folder");
  write_text(directory.working() + "/folder/more", value);
  directory.publish("done");
  return directory.path();
}

class PublishedDirectoryTest : public ::testing::TestWithParam<Commit> {};
INSTANTIATE_TEST_SUITE_P(Commits, PublishedDirectoryTest,
                         testing::Values(Commit::kRename, Commit::kMarker), [](const auto& made) {
                           return made.param == Commit::kRename ? "Rename" : "Marker";
                         });

TEST_P(PublishedDirectoryTest, AppearsAsAWholeInFoldersThatItMakes) {
  const TempDirectory directory;
  const std::string path = write_step(directory / "deep/folder/step-00000012/", "1", GetParam());
  EXPECT_EQ(path, directory / "deep/folder/step-00000012");
  EXPECT_EQ(list_directory(path), (std::set<std::string>{"done", "folder", "value"}));
  EXPECT_EQ(list_directory(directory / "deep/folder"), std::set<std::string>{"step-00000012"});
}

TEST_P(PublishedDirectoryTest, WithoutPublishNothingIsLeft) {
  const TempDirectory directory;
  {
    PublishedDirectory one(directory / "ck/step-00000001", GetParam(), kKind);
    write_text(one.working() + "/value", "1");
    EXPECT_FALSE(is_committed(directory / "ck/step-00000001"));
  }
  EXPECT_TRUE(list_directory(directory / "ck").empty());
}

TEST_P(PublishedDirectoryTest, ACommittedDirectoryIsTakenAwayAsAWhole) {
  const TempDirectory directory;
  const std::string path = write_step(directory / "step-00000001", "1", GetParam());
  remove_published(path, GetParam(), kKind);
  EXPECT_TRUE(list_directory(directory.str()).empty());
}

TEST(PublishedDirectoryTest, ReplacesAnOlderOneOfTheSameName) {
  const TempDirectory directory;
  const std::string path = directory / "step-00000005";
  write_step(path, "1");
  PublishedDirectory next(path, Commit::kRename, kKind);
  write_text(next.working() + "/value", "2");
  EXPECT_EQ(read_file(path + "/value"), "1");
  next.publish("done");
  EXPECT_EQ(read_file(path + "/value"), "2");
  EXPECT_EQ(list_directory(directory.str()), std::set<std::string>{"step-00000005"});
}

TEST(PublishedDirectoryTest, NeverRemovesFilesOfOthers) {
  const TempDirectory directory;
  const std::string path = write_step(directory / "step-00000005", "1");
  test::write_file(path + "/folder/notes.txt", "mine");
  write_step(path, "2");
  EXPECT_EQ(read_file(path + "/value"), "2");
  const std::set<std::string> names = list_directory(directory.str());
  ASSERT_EQ(names.size(), 2u);
  const std::string kept = *names.rbegin();
  EXPECT_TRUE(kept.starts_with("step-00000005.kept-")) << kept;
  EXPECT_EQ(read_file(directory / (kept + "/value")), "1");
  EXPECT_EQ(read_file(directory / (kept + "/folder/notes.txt")), "mine");
}

TEST(PublishedDirectoryTest, DoesNotWriteThroughALinkInItsPlace) {
  const TempDirectory directory;
  fs::create_directories(directory / "elsewhere");
  fs::create_directories(directory / "out");
  fs::create_symlink(directory / "elsewhere", directory / "out/step-00000005");
  write_step(directory / "out/step-00000005", "2");
  EXPECT_TRUE(list_directory(directory / "elsewhere").empty());
  EXPECT_FALSE(fs::is_symlink(directory / "out/step-00000005"));
}

TEST(PublishedDirectoryTest, CleansUpAfterKilledProcessesButNotAfterLivingOnes) {
  const TempDirectory directory;
  test::write_file(directory / ".step-00000007.tmp-dead/value", "torn");
  test::write_file(directory / ".mine.tmp-dead/value", "torn");
  fs::create_directories(directory / ".step-00000008.tmp-alive");
  fs::create_directories(directory / ".step-x.tmp-foreign");
  const int lock = ::open((directory / ".step-00000008.tmp-alive").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  write_step(directory / "mine", "1");
  EXPECT_EQ(list_directory(directory.str()),
            (std::set<std::string>{".step-00000008.tmp-alive", ".step-x.tmp-foreign", "mine"}));
  ::close(lock);
}

TEST(PublishedDirectoryTest, PutsBackWhatWasMovedAsideWhenTheSuccessorIsMissing) {
  const TempDirectory directory;
  write_step(directory / "step-00000005", "1");
  fs::rename(directory / "step-00000005", directory / ".step-00000005.old-dead");
  write_step(directory / "step-00000006", "2");
  EXPECT_EQ(read_file(directory / "step-00000005/value"), "1");
  fs::create_directories(directory / ".step-00000005.old-dead");
  write_step(directory / "step-00000007", "2");
  EXPECT_EQ(list_directory(directory.str()),
            (std::set<std::string>{"step-00000005", "step-00000006", "step-00000007"}));
}

TEST(PublishedDirectoryTest, WhoeverLooksFirstPutsBackAndCleansNothingElse) {
  const TempDirectory directory;
  write_step(directory / ".step-00000001.old-11", "1");
  write_step(directory / "step-00000002", "2");
  write_step(directory / ".step-00000002.old-12", "1");
  fs::create_directory(directory / ".step-00000003.tmp-13");
  restore_moved_steps(directory.str());
  EXPECT_EQ(list_directory(directory.str()),
            (std::set<std::string>{"step-00000001", "step-00000002", ".step-00000002.old-12",
                                   ".step-00000003.tmp-13"}));
  EXPECT_EQ(read_file(directory / "step-00000001/value"), "1");
  EXPECT_EQ(read_file(directory / "step-00000002/value"), "2");
  EXPECT_NO_THROW(restore_moved_steps(directory / "missing"));
}

TEST(PublishedDirectoryTest, AFolderOfStepsIsCleanedWithoutASave) {
  const TempDirectory directory;
  write_step(directory / ".step-00000001.old-11", "1");
  fs::create_directory(directory / ".step-00000003.tmp-13");
  write_step(directory / "step-00000004", "4", Commit::kMarker);
  test::write_file(directory / "step-00000004/.sluice-incomplete", "");
  test::write_file(directory / "step-00000005/value", "5");
  test::write_file(directory / "step-00000005/.sluice-incomplete", "");
  test::write_file(directory / ".other.tmp-13/value", "of others");
  clean_steps(directory.str(), kKind);
  EXPECT_EQ(list_directory(directory.str()),
            (std::set<std::string>{"step-00000001", "step-00000004", ".other.tmp-13"}));
  EXPECT_EQ(list_directory(directory / "step-00000004"),
            (std::set<std::string>{"done", "folder", "value"}));
}

TEST(PublishedDirectoryTest, InMarkerModeNothingCommittedIsReplaced) {
  const TempDirectory directory;
  const std::string path = write_step(directory / "step-00000005", "1", Commit::kMarker);
  EXPECT_EQ(error_of([&] { write_step(path, "2", Commit::kMarker); }).fact(),
            "the directory is committed already");
  EXPECT_EQ(read_file(path + "/value"), "1");
}

TEST(PublishedDirectoryTest, InMarkerModeWhatIsNotCommittedGoesWithTheNextSave) {
  const TempDirectory directory;
  // The saves were killed before writing the marker, while writing it, after it, and at the very
  // start.
  test::write_file(directory / "step-00000001/.sluice-incomplete", "");
  test::write_file(directory / "step-00000001/value", "1");
  test::write_file(directory / "step-00000002/.sluice-incomplete", "");
  test::write_file(directory / "step-00000002/done", "do");
  test::write_file(directory / "step-00000003/.sluice-incomplete", "");
  test::write_file(directory / "step-00000003/done", "done");
  fs::create_directories(directory / "step-00000004");
  // These must be kept: one was not begun by a save, one has a file that no save writes.
  test::write_file(directory / "step-00000005/value", "1");
  test::write_file(directory / "step-00000006/.sluice-incomplete", "");
  test::write_file(directory / "step-00000006/notes.txt", "mine");
  write_step(directory / "step-00000009", "1", Commit::kMarker);
  EXPECT_EQ(
      list_directory(directory.str()),
      (std::set<std::string>{"step-00000003", "step-00000005", "step-00000006", "step-00000009"}));
  EXPECT_EQ(list_directory(directory / "step-00000003"), std::set<std::string>{"done"});
}

TEST(PublishedDirectoryTest, AKilledReplacementLeavesTheOldOrTheNewOne) {
  const TempDirectory directory;
  const std::string path = write_step(directory / "step-00000005", "1");
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        for (;;) write_step(path, std::to_string(2 + round));
      } catch (...) {
      }
      ::_exit(1);
    }
    ::usleep(static_cast<useconds_t>(500 + 700 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself";
    const std::string value = read_file(path + "/value");
    EXPECT_EQ(read_file(path + "/folder/more"), value);
    EXPECT_TRUE(is_committed(path));
  }
  write_step(directory / "step-00000006", "0");
  EXPECT_EQ(list_directory(directory.str()),
            (std::set<std::string>{"step-00000005", "step-00000006"}));
}

TEST(PublishedDirectoryTest, AWorkingFolderThatWasRemovedIsAnError) {
  const fs::path before = fs::current_path();
  Error error(ErrorKind::kInternal, {.what = ""});
  {
    const TempDirectory directory;
    fs::current_path(directory.str());
    fs::remove_all(directory.str());
    error = error_of([] { write_step("deep/folder", "1"); });
    fs::current_path(before);
  }
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(error.fact(), "cannot create directory: No such file or directory");
}

}  // namespace
}  // namespace sluice::io
