#include "checkpoint/read_manifest.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/nearest_name.h"
#include "checkpoint/manifest.h"
#include "io/published_directory.h"
#include "io/step_name.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_there(it->path().string() + "/" + kManifestFile)) names.push_back(it->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string newest(const std::vector<std::string>& names) {
  std::string found;
  std::int64_t last = -1;
  for (const std::string& name : names) {
    const auto step = io::step_of_name(name);
    if (!step || *step <= last) continue;
    last = *step;
    found = name;
  }
  return found;
}

[[noreturn]] void refuse_missing(const std::string& path) {
  const std::string folder = parent_directory(path);
  const std::vector<std::string> names = checkpoints_in(folder);
  std::string near = nearest_name(base_name(path), names);
  if (near.empty()) near = newest(names);
  if (!near.empty() && path.find('/') != std::string::npos)
    near = (folder == "/" ? "/" : folder + "/") + near;
  throw Error(ErrorKind::kCheckpoint,
              {.what = "there is no such checkpoint",
               .where = path.empty() ? "''" : path,
               .remedy = near.empty() ? "check the path" : "did you mean '" + near + "'?"});
}

[[noreturn]] void refuse_uncommitted(const std::string& path) {
  std::string remedy = "resume from another checkpoint";
  if (const std::string inside = newest(checkpoints_in(path)); !inside.empty()) {
    remedy = "did you mean '" + path + "/" + inside + "'?";
  } else if (is_there(path + "/config.json")) {
    remedy = "a directory with weights alone is a model: set `path` to it";
  }
  throw Error(ErrorKind::kCheckpoint, {.what = kNotCommitted, .where = path, .remedy = remedy});
}

}  // namespace

Manifest read_manifest(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || path.empty()) refuse_missing(path);
  if (status.type() == fs::file_type::none)
    throw file_error(ErrorKind::kCheckpoint, "cannot open directory", path, error.value(),
                     Access::kRead);
  if (!fs::is_directory(status)) {
    throw Error(
        ErrorKind::kCheckpoint,
        {.what = "not a directory", .where = path, .remedy = "name the folder of a checkpoint"});
  }
  const std::string file = path + "/" + kManifestFile;
  if (fs::symlink_status(file, error).type() == fs::file_type::not_found) refuse_uncommitted(path);
  return parse_manifest(read_text(file, kMaxManifestBytes, ErrorKind::kCheckpoint, Links::kRefuse),
                        file);
}

bool was_committed(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::exists(path + "/" + kManifestFile, unknown) && !io::is_unfinished(path);
}

}  // namespace sluice
