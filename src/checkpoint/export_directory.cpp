#include "checkpoint/export_directory.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

void require_free(const std::string& out) {
  if (std::error_code unknown; fs::exists(parent_directory(out) + "/" + kManifestFile, unknown)) {
    throw Error(ErrorKind::kUsage, {.what = "the export would be inside a checkpoint",
                                    .where = out,
                                    .remedy = "name a folder outside of it"});
  }
  std::error_code error;
  const fs::file_status status = fs::symlink_status(out, error);
  if (status.type() == fs::file_type::not_found && !out.empty()) return;
  if (fs::is_directory(status) && fs::is_empty(out, error) && !error) return;
  throw Error(ErrorKind::kUsage,
              {.what = fs::is_directory(status) ? "the export directory is not empty"
                                                : "cannot export to a path that is not a directory",
               .where = out.empty() ? "''" : out,
               .remedy = "name a directory that does not exist yet"});
}

std::string free_name(std::string out) {
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  require_free(out);
  return out;
}

}  // namespace

ExportDirectory::ExportDirectory(std::string out)
    : out_(free_name(std::move(out))),
      path_(parent_directory(out_) + "/." + base_name(out_) + ".tmp-" + unique_suffix()) {
  if (::mkdir(path_.c_str(), 0777) != 0)
    throw file_error(ErrorKind::kCheckpoint, "cannot create directory", path_, errno);
}

ExportDirectory::~ExportDirectory() {
  std::error_code ignored;
  if (!published_) fs::remove_all(path_, ignored);
}

void ExportDirectory::publish() {
  sync_directory(path_);
  rename_path(path_, out_);  // also replaces an empty directory
  published_ = true;
  sync_directory(parent_directory(out_));
}

}  // namespace sluice
