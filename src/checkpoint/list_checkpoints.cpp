#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "checkpoint/read_manifest.h"
#include "io/step_name.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string reason_of(const Error& error, const std::string& path) {
  std::string where = error.where();
  if (where == path) return error.fact();
  if (where.starts_with(path + "/")) where.erase(0, path.size() + 1);
  return error.fact() + "; " + where;
}

void look_at(ListedCheckpoint& listed, int num_threads) {
  std::error_code unknown;
  const fs::file_status status = fs::symlink_status(listed.path, unknown);
  if (fs::is_symlink(status)) {
    listed.reason = "a symbolic link, not a checkpoint";
    return;
  }
  if (!fs::is_directory(status)) {
    listed.reason = "not a folder";
    return;
  }
  try {
    const Manifest manifest = read_manifest(listed.path);
    listed.committed = true;
    if (manifest.step != listed.step) {
      listed.reason =
          "its name does not match its manifest of step " + std::to_string(manifest.step);
      return;
    }
    Checkpoint(listed.path).verify(num_threads);
    listed.ok = true;
  } catch (const Error& error) {
    listed.reason = reason_of(error, listed.path);
  }
}

}  // namespace

std::vector<ListedCheckpoint> list_checkpoints(const std::string& folder, int num_threads) {
  std::vector<ListedCheckpoint> list;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error == std::errc::no_such_file_or_directory) return list;
  const std::string before = folder.ends_with('/') ? folder : folder + "/";
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    const auto step = io::step_of_name(name);
    if (step) list.push_back({.step = *step, .path = before + name});
  }
  if (error) {
    throw file_error(ErrorKind::kCheckpoint, "cannot list the folder", folder, error.value(),
                     Access::kRead);
  }
  std::sort(list.begin(), list.end(),
            [](const ListedCheckpoint& a, const ListedCheckpoint& b) { return a.step < b.step; });
  for (ListedCheckpoint& listed : list) look_at(listed, num_threads);
  return list;
}

}  // namespace sluice
