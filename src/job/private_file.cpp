#include "job/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "job/sha256.h"
#include "job/socket.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxBytes = 4096, kMaxName = 100;
constexpr mode_t kOfOthers = S_IRWXG | S_IRWXO;

std::string parent_of_folder() {
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* const value = std::getenv(variable);
    struct stat status;
    if (value && *value == '/' && ::stat(value, &status) == 0 && S_ISDIR(status.st_mode) &&
        ::access(value, W_OK | X_OK) == 0) {
      return value;
    }
  }
  return "/tmp";
}

}  // namespace

std::string private_folder() {
  const std::string folder = formatted("{}/sluice-{}", parent_of_folder(), ::geteuid());
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    throw file_error(ErrorKind::kUsage, "cannot create folder", folder, errno);
  struct stat status;
  if (::lstat(folder.c_str(), &status) != 0)
    throw file_error(ErrorKind::kUsage, "cannot inspect folder", folder, errno);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & kOfOthers)) {
    throw Error(ErrorKind::kUsage, {.what = "this folder is not private to this user",
                                    .where = folder,
                                    .remedy = "remove it, or set TMPDIR to a folder of your own"});
  }
  return folder;
}

std::string private_path(const std::string& name) {
  std::string safe;
  for (const char c : name + "@" + machine_name()) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' || c == '@';
    safe += plain ? c : '_';
  }
  // Distinguishes names that are equal once shortened.
  const std::string digits = hex(bytes_of(sha256(name + "@" + machine_name()), 8));
  return private_folder() + "/job-" + safe.substr(0, kMaxName) + "-" + digits;
}

std::optional<std::string> read_private_file(const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != ::geteuid() || (status.st_mode & kOfOthers)) {
    return std::nullopt;
  }
  try {
    return read_text(path, kMaxBytes, ErrorKind::kUsage, Links::kRefuse);
  } catch (const Error&) {
    return std::nullopt;
  }
}

PrivateFile::PrivateFile(std::string path, std::string text)
    : path_(std::move(path)), text_(std::move(text)) {
  const int failed = replace_file(path_, text_, S_IRUSR | S_IWUSR);
  if (failed != 0) throw file_error(ErrorKind::kUsage, "cannot write file", path_, failed);
}

PrivateFile::~PrivateFile() {
  if (read_private_file(path_) == text_) ::unlink(path_.c_str());
}

}  // namespace sluice
