// Makes every kind of file-system call below the given folder, through the standard library and
// from four threads. Prints which calls failed and continues.
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;

void say(const char* what, bool done) {
  if (!done) std::printf("%s: %d\n", what, errno);
}

void with_std(const fs::path& folder) {
  std::error_code error;
  const auto check = [&error](const char* what) {
    if (error) std::printf("%s: %d\n", what, error.value());
  };
  fs::create_directories(folder / "std/a/b", error);
  check("create_directories");
  std::ofstream file(folder / "std/a/text");
  file << "some text, and " << 12 << std::flush;
  file.close();
  say("ofstream", static_cast<bool>(file));
  fs::copy_file(folder / "std/a/text", folder / "std/a/copy", error);
  check("copy_file");
  fs::resize_file(folder / "std/a/copy", 5, error);
  check("resize_file");
  fs::create_symlink("text", folder / "std/a/link", error);
  check("create_symlink");
  fs::create_hard_link(folder / "std/a/copy", folder / "std/a/second", error);
  check("create_hard_link");
  fs::copy(folder / "std/a", folder / "std/c",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
  check("copy");
  fs::rename(folder / "std/c", folder / "std/d", error);
  check("rename");
  fs::remove(folder / "std/d/text", error);
  check("remove");
  fs::remove_all(folder / "std/a", error);
  check("remove_all");
}

void with_calls(const fs::path& folder) {
  const std::string path = folder / "file", other = folder / "other";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  say("open", file >= 0);
  say("write", write(file, "0123456789", 10) == 10);
  say("pwrite", pwrite(file, "abc", 3, 20) == 3);
  const iovec parts[] = {{const_cast<char*>("xy"), 2}, {const_cast<char*>("z"), 1}};
  say("writev", writev(file, parts, 2) == 3);
  say("fdatasync", fdatasync(file) == 0);
  say("ftruncate", ftruncate(file, 15) == 0);
  const int copy = openat(AT_FDCWD, other.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  say("openat", copy >= 0);
  off_t from = 2;
  say("sendfile", sendfile(copy, file, &from, 6) == 6);
  off64_t start = 0, end = 30;
  say("copy_file_range", copy_file_range(file, &start, copy, &end, 4, 0) == 4);
  say("fsync", fsync(copy) == 0);
  say("close", close(copy) == 0);
  say("close", close(file) == 0);
  say("renameat2",
      renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0);
  const int here = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  say("open", here >= 0);
  say("mkdirat", mkdirat(here, "made", 0777) == 0);
  say("renameat", renameat(here, "file", here, "made/moved") == 0);
  say("mkdirat", mkdirat(here, "gone", 0777) == 0);
  say("unlinkat", unlinkat(here, "gone", AT_REMOVEDIR) == 0);
  say("fsync", fsync(here) == 0);
  say("close", close(here) == 0);
  std::string drawn = folder / "XXXXXX";
  say("mkdtemp", mkdtemp(drawn.data()) != nullptr);
  say("rmdir", rmdir(drawn.c_str()) == 0);
}

void with_threads(const fs::path& folder) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&folder, i] {
      const std::string path = folder / ("thread-" + std::to_string(i));
      const int file = open((path + ".tmp").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
      for (int k = 0; k < 5; ++k) say("write", write(file, path.data(), path.size()) > 0);
      say("fsync", fsync(file) == 0);
      say("close", close(file) == 0);
      say("rename", std::rename((path + ".tmp").c_str(), path.c_str()) == 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  with_std(arguments[1]);
  with_calls(arguments[1]);
  with_threads(arguments[1]);
}
