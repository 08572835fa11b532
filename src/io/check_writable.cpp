#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "io/file.h"
#include "sluice/hf_directory.h"

namespace sluice {

void check_writable(const std::string& folder, ErrorKind kind) {
  std::string ancestor = folder.empty() ? "." : folder;
  while (ancestor.size() > 1 && ancestor.ends_with('/')) ancestor.pop_back();
  struct stat status;
  while (::stat(ancestor.c_str(), &status) != 0) {
    const int error_number = errno;
    // A link without a target is there, though nothing can be created through it.
    const bool missing = error_number == ENOENT && ::lstat(ancestor.c_str(), &status) != 0;
    if (!missing) {
      throw io::file_error(kind, "cannot write into '" + folder + "'", ancestor, error_number);
    }
    ancestor = io::parent_directory(ancestor);
  }
  if (!S_ISDIR(status.st_mode)) {
    throw Error(kind, "cannot write into '" + folder + "': not a directory", ancestor,
                "choose a folder that you may write to");
  }
  // Creating is the only honest test: access() knows nothing of read-only mounts for root, quotas
  // or file systems without directories.
  std::string probe = ancestor + "/.sluice-probe-XXXXXX";
  if (::mkdtemp(probe.data()) == nullptr) {
    throw io::file_error(kind, "cannot write into '" + folder + "'", ancestor, errno);
  }
  ::rmdir(probe.c_str());
}

}  // namespace sluice
