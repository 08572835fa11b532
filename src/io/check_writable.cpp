#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "io/check_writable.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {
namespace {

constexpr const char* kProbe = ".sluice-probe-";

// Removes probes (test folders) of killed processes. Removing a live process's probe is harmless,
// because only its creation matters.
void remove_probes(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename().string().starts_with(kProbe)) found.push_back(it->path());
  }
  for (const std::string& path : found) ::rmdir(path.c_str());
}

}  // namespace

void check_writable(const std::string& folder, ErrorKind kind, std::uint64_t bytes,
                    std::uint64_t largest_file) {
  std::string ancestor = folder.empty() ? "." : folder;
  while (ancestor.size() > 1 && ancestor.ends_with('/')) ancestor.pop_back();
  // Look at each ancestor only once, because another process may create it meanwhile.
  struct stat status;
  while (::lstat(ancestor.c_str(), &status) != 0) {
    if (errno != ENOENT)
      throw file_error(kind, "cannot write into '" + folder + "'", ancestor, errno);
    ancestor = parent_directory(ancestor);
  }
  if (S_ISLNK(status.st_mode) && ::stat(ancestor.c_str(), &status) != 0)
    throw file_error(kind, "cannot write into '" + folder + "'", ancestor, errno);
  if (!S_ISDIR(status.st_mode)) {
    throw Error(kind, {.what = "cannot write into '" + folder + "': not a directory",
                       .where = ancestor,
                       .remedy = "choose a folder that you may write to"});
  }
  rlimit size{};
  if (::getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY &&
      size.rlim_cur < largest_file) {
    throw Error(
        kind, {.what = "the limit on the size of files is " +
                       human_bytes(static_cast<std::int64_t>(size.rlim_cur)) + ", but '" + folder +
                       "' needs a file of " + human_bytes(static_cast<std::int64_t>(largest_file)),
               .where = ancestor,
               .remedy = "raise the limit (ulimit -f)"});
  }
  // Create a folder as a test. access() ignores quotas, file systems without directories, and for
  // root read-only mounts.
  remove_probes(ancestor);
  std::string probe = ancestor + "/" + kProbe + "XXXXXX";
  if (::mkdtemp(probe.data()) == nullptr) {
    throw file_error(kind, "cannot write into '" + folder + "'", ancestor, errno);
  }
  // ENOENT: another process removed the probe.
  if (::rmdir(probe.c_str()) != 0 && errno != ENOENT)
    throw file_error(kind, "cannot remove what was made in '" + folder + "'", probe, errno);
  struct statvfs disk;
  // This file system does not report its size, so skip the check.
  if (::statvfs(ancestor.c_str(), &disk) != 0 || disk.f_blocks == 0) return;
  const std::uint64_t left = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (left < bytes) {
    throw Error(
        kind,
        {.what = "'" + folder + "' needs " + human_bytes(static_cast<std::int64_t>(bytes)) +
                 ", but its disk has " + human_bytes(static_cast<std::int64_t>(left)) + " left",
         .where = ancestor,
         .remedy = "free some space there, or choose another folder"});
  }
}

}  // namespace sluice
