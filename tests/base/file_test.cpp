#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "base/hub_id.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::TempDirectory;

std::string pipe_in(const TempDirectory& directory) {
  const std::string path = directory / "pipe";
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  return path;
}

TEST(ReadTextTest, ReadsWholeFilesAlsoThoseThatHaveNoSize) {
  const TempDirectory directory;
  const std::string text(200'000, 'x');
  test::write_file(directory / "file", text);
  EXPECT_EQ(read_text(directory / "file", text.size()), text);
  EXPECT_FALSE(read_text("/proc/self/status", 1 << 20).empty());
}

TEST(ReadTextTest, RefusesWhatIsTooLargeMissingOrNoRegularFile) {
  const TempDirectory directory;
  test::write_file(directory / "file", "12345");
  EXPECT_EQ(error_of([&] { read_text(directory / "file", 4); }).fact(),
            "the file is larger than 4B");
  const Error missing = error_of([&] { read_text(directory / "none", 4, ErrorKind::kUsage); });
  EXPECT_EQ(missing.kind(), ErrorKind::kUsage);
  EXPECT_EQ(missing.fact(), "cannot open file: No such file or directory");
  EXPECT_EQ(missing.remedy(), "check the path");
  const Error folder = error_of([&] { read_text(directory.str(), 4); });
  EXPECT_EQ(folder.fact(), "not a regular file");
  EXPECT_EQ(folder.remedy(), "it is a folder: name a file in it");
  EXPECT_EQ(error_of([&] { read_text(pipe_in(directory), 4); }).fact(), "not a regular file");
}

TEST(ReadTextTest, RefusesALinkWhereItIsAsked) {
  const TempDirectory directory;
  test::write_file(directory / "file", "1234");
  ASSERT_EQ(::symlink("file", (directory / "link").c_str()), 0);
  EXPECT_EQ(read_text(directory / "link", 4), "1234");
  EXPECT_EQ(read_text(directory / "file", 4, ErrorKind::kUsage, Links::kRefuse), "1234");
  const Error link =
      error_of([&] { read_text(directory / "link", 4, ErrorKind::kCheckpoint, Links::kRefuse); });
  EXPECT_EQ(link.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(link.fact(), "a symbolic link, not a file");
}

TEST(ReadTextOrPipeTest, TakesWhatIsWrittenToAPipe) {
  const TempDirectory directory;
  const std::string path = pipe_in(directory), text(200'000, 'x');
  std::thread writer([&] { test::write_file(path, text); });
  EXPECT_EQ(read_text_or_pipe(path, text.size(), ErrorKind::kUsage), text);
  writer.join();
  EXPECT_EQ(read_text_or_pipe("/dev/null", 4, ErrorKind::kUsage), "");
  test::write_file(directory / "file", "1234");
  EXPECT_EQ(read_text_or_pipe(directory / "file", 4, ErrorKind::kUsage), "1234");
}

TEST(ReadTextOrPipeTest, AnEmptyPipeIsAnEmptyFile) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[1]);
  EXPECT_EQ(read_text_or_pipe("/dev/fd/" + std::to_string(ends[0]), 4, ErrorKind::kUsage), "");
  ::close(ends[0]);
}

TEST(ReadTextOrPipeTest, RefusesAPipeThatNobodyWritesToOrThatNeverEnds) {
  const TempDirectory directory;
  const std::string path = pipe_in(directory);
  const Error silent = error_of([&] { read_text_or_pipe(path, 4, ErrorKind::kUsage); });
  EXPECT_STREQ(silent.what(),
               ("nothing was written to the pipe within 2 s; " + path +
                "; name a regular file, or first start the program that writes to it")
                   .c_str());
  EXPECT_EQ(silent.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error_of([&] { read_text_or_pipe("/dev/zero", 1 << 20, ErrorKind::kInput); }).fact(),
            "the file is larger than 1.00MiB");
}

TEST(ReplaceFileTest, ReplacesAtOnceAndKeepsNothingBeside) {
  const TempDirectory directory;
  const std::string path = directory / "file";
  EXPECT_EQ(replace_file(path, "first"), 0);
  EXPECT_EQ(replace_file(path, "second", 0640), 0);
  EXPECT_EQ(test::read_file(path), "second");
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  EXPECT_EQ(test::list_directory(directory.str()), std::set<std::string>{"file"});
  EXPECT_EQ(replace_file(directory / "none/file", ""), ENOENT);
}

TEST(ReplaceFileTest, AWriteThatFailsLeavesTheFileAsItWas) {
  const TempDirectory directory;
  const std::string path = directory / "file";
  ASSERT_EQ(replace_file(path, "before"), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const int failed = replace_file(path, std::string(2000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(failed, EFBIG);
  EXPECT_EQ(test::read_file(path), "before");
  EXPECT_EQ(test::list_directory(directory.str()), std::set<std::string>{"file"});
}

TEST(FileTest, AGitLfsPointerIsTakenForNoContent) {
  const TempDirectory directory;
  const std::string text = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 17\n";
  test::write_file(directory / "pointer", text);
  for (const ErrorKind kind : {ErrorKind::kInput, ErrorKind::kCheckpoint, ErrorKind::kUsage}) {
    for (const auto& open : std::vector<std::function<void()>>{
             [&] { File::open(directory / "pointer", kind); },
             [&] { read_text(directory / "pointer", 1000, kind); },
             [&] { read_text_or_pipe(directory / "pointer", 1000, kind); }}) {
      const Error error = error_of(open);
      EXPECT_EQ(error.kind(), kind);
      EXPECT_EQ(error.fact(), "a Git LFS pointer: run git lfs pull");
      EXPECT_EQ(error.where(), directory / "pointer");
    }
  }
  const File copied =
      File::open(directory / "pointer", ErrorKind::kInput, Links::kFollow, LfsPointers::kTake);
  EXPECT_EQ(copied.size(), text.size());
  test::write_file(directory / "long", text + std::string(2000, 'x'));
  EXPECT_NO_THROW(File::open(directory / "long")) << "pointers have at most 1024 bytes";
}

TEST(HubIdTest, ANameOfTheHubIsAdvisedToBeDownloaded) {
  const TempDirectory directory;
  test::write_file(directory / "here/file", "");
  const std::string advice = "hf download Qwen/Qwen2.5-0.5B --local-dir models/Qwen2.5-0.5B";
  EXPECT_NE(download_advice("Qwen/Qwen2.5-0.5B").find(advice), std::string::npos);
  EXPECT_NE(download_advice("Qwen/Qwen2.5-0.5B/").find(advice), std::string::npos);
  // A configuration file turns the name into such a path.
  EXPECT_NE(download_advice(directory / "Qwen/Qwen2.5-0.5B").find(advice), std::string::npos);
  for (const std::string& path :
       {std::string("nowhere"), directory / "here/none", directory / "here/file",
        std::string("models/llama"), std::string("a/config.json"), std::string("../a"),
        std::string("a b/c"), std::string()})
    EXPECT_EQ(download_advice(path), "") << path;
}

}  // namespace
}  // namespace sluice
