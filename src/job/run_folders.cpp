#include "job/run_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "io/published_directory.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Processes whose launcher was killed end a little later.
constexpr std::chrono::seconds kFolderPatience{5};

bool is_same_folder(int one, int other) {
  struct stat first, second;
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// Whether another run holds it to the end of our patience.
bool is_held_by_another(int folder) {
  const auto give_up = std::chrono::steady_clock::now() + kFolderPatience;
  while (flock(folder, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return false;  // no locks here
    if (std::chrono::steady_clock::now() > give_up) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace

void RunFolders::take(const RunConfig& config) {
  struct Folder {
    const char* key;
    const std::string& path;
    const char* holds;
    ErrorKind kind;
  };
  const Folder folders[] = {
      {"checkpoint.folder", config.checkpoint.folder, "saves its checkpoints here",
       ErrorKind::kCheckpoint},
      {"metrics.folder", config.metrics.folder, "writes its metrics here", ErrorKind::kUsage}};
  for (const Folder& folder : folders) {
    try {
      for (std::string& made : io::make_folders(folder.path)) made_.push_back(std::move(made));
    } catch (const Error&) {
      continue;  // what writes there says so
    }
    const int descriptor = open(folder.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) continue;
    const bool has_it = !locks_.empty() && is_same_folder(locks_.front(), descriptor);
    if (has_it) {
      close(descriptor);
      continue;
    }
    locks_.push_back(descriptor);
    if (!is_held_by_another(descriptor)) continue;
    throw Error(folder.kind,
                {.what = std::string("another run that is alive ") + folder.holds,
                 .where = folder.path,
                 .remedy = std::string("end it, or set ") + folder.key + " to another folder"});
  }
}

RunFolders::~RunFolders() {
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) rmdir(path->c_str());
  for (const int lock : locks_) close(lock);
}

}  // namespace sluice
