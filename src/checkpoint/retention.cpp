#include "checkpoint/retention.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/log.h"
#include "checkpoint/manifest.h"
#include "checkpoint/read_manifest.h"
#include "checkpoint/step_folders.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Returns nullopt unless the folder has a committed checkpoint of the step in its name.
std::optional<Manifest> manifest_of(const StepFolder& folder) {
  std::error_code unknown;
  if (!fs::is_directory(fs::symlink_status(folder.path, unknown))) return std::nullopt;
  try {
    Manifest manifest = read_manifest(folder.path);
    if (manifest.step == folder.step) return manifest;
  } catch (const Error&) {  // damaged: keep it for the user
  }
  return std::nullopt;
}

std::set<std::string> files_of(const Manifest& manifest) {
  std::set<std::string> files = {kManifestFile};
  for (const auto* tensors : {&manifest.weights, &manifest.optimizer, &manifest.extra_tensors}) {
    for (const SavedTensor& tensor : *tensors) files.insert(tensor.file);
  }
  for (const SavedFile& file : manifest.files) files.insert(file.file);
  return files;
}

bool holds_only_its_files(const StepFolder& folder) {
  const std::optional<Manifest> manifest = manifest_of(folder);
  if (!manifest) return false;
  const std::set<std::string> files = files_of(*manifest);
  const std::string& path = folder.path;
  std::error_code error;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().lexically_relative(path);
    const fs::file_status status = it->symlink_status(error);
    const bool is_folder =
        fs::is_directory(status) && (name == kOptimizerFolder || name == kExtraFolder);
    if (!is_folder && (!fs::is_regular_file(status) || !files.contains(name))) return false;
  }
  return !error;
}

std::vector<StepFolder> own_checkpoints(const std::string& folder, std::int64_t step,
                                        const std::string& run) {
  std::vector<StepFolder> own;
  for (const StepFolder& candidate : step_folders(folder)) {
    if (candidate.step > step) continue;
    const std::optional<Manifest> manifest = manifest_of(candidate);
    if (manifest && manifest->run == run) own.push_back(candidate);
  }
  return own;
}

}  // namespace

std::vector<std::string> superseded_checkpoints(const std::string& folder, std::int64_t step,
                                                const Retention& retention) {
  if (retention.keep_latest_k == 0) return {};
  const std::vector<StepFolder> own = own_checkpoints(folder, step, retention.run);
  if (own.empty() || own.back().step != step) return {};
  const auto num_newest =
      std::min<std::size_t>(own.size(), static_cast<std::size_t>(retention.keep_latest_k));
  std::vector<std::string> superseded;
  for (std::size_t i = 0; i < own.size() - num_newest; ++i) {
    const bool is_kept = retention.keep_every > 0 && own[i].step % retention.keep_every == 0;
    if (!is_kept && holds_only_its_files(own[i])) superseded.push_back(own[i].path);
  }
  return superseded;
}

void remove_superseded(const std::string& folder, std::int64_t step, const Retention& retention,
                       const std::function<void(const std::string& path)>& remove) {
  const auto or_warn = [](const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      log_warning("cannot remove older checkpoints: " + std::string(error.what()));
    }
  };
  std::vector<std::string> superseded;
  or_warn([&] { superseded = superseded_checkpoints(folder, step, retention); });
  for (const std::string& path : superseded) or_warn([&] { remove(path); });
}

}  // namespace sluice
