#include "job/earlier_run.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "sluice/error.h"
#include "sluice/parts/metrics.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct StepFolder {
  std::int64_t step = 0;
  std::string name;
};

// Of checkpoint.folder, by step.
std::vector<StepFolder> step_folders(const RunConfig& config) {
  static constexpr std::string_view kPrefix = "step-";
  std::vector<StepFolder> found;
  std::error_code error;
  for (fs::directory_iterator it(config.checkpoint.folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (!name.starts_with(kPrefix)) continue;
    StepFolder folder{0, name};
    const char* const last = name.data() + name.size();
    const auto [rest, failure] = std::from_chars(name.data() + kPrefix.size(), last, folder.step);
    if (failure == std::errc() && rest == last && folder.step > 0) found.push_back(folder);
  }
  std::sort(found.begin(), found.end(), [](const StepFolder& a, const StepFolder& b) {
    return std::pair(a.step, a.name) < std::pair(b.step, b.name);
  });
  return found;
}

}  // namespace

void require_data_is_kept(const RunConfig& config) {
  const std::string metrics = MetricsFile::path_in(config.metrics.folder);
  std::error_code ignored;
  const auto require_kept = [&](const std::string& key, const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      if (!fs::equivalent(file, metrics, ignored)) continue;
      throw Error(ErrorKind::kUsage, {.what = key + " has the metrics.jsonl that this run replaces",
                                      .where = file,
                                      .remedy = "set metrics.folder to another folder"});
    }
  };
  require_kept("data.files", expand_data_files(config));
  if (!config.validation.files.empty())
    require_kept("validation.files", expand_validation_files(config));
}

void require_model_is_kept(const RunConfig& config) {
  if (config.model.path.empty()) return;
  for (const StepFolder& folder : step_folders(config)) {
    const std::string path = config.checkpoint.folder + "/" + folder.name;
    std::error_code ignored;
    if (folder.step > config.training.steps || !fs::equivalent(path, config.model.path, ignored)) {
      continue;
    }
    throw Error(ErrorKind::kUsage,
                {.what = "model.path is '" + folder.name +
                         "' of checkpoint.folder, which this run may replace with its own step " +
                         std::to_string(folder.step),
                 .where = config.model.path,
                 .remedy = "set checkpoint.folder to another folder"});
  }
}

std::string earlier_run_warning(const RunConfig& config) {
  const std::vector<StepFolder> folders = step_folders(config);
  std::vector<std::string> found, replaced;
  if (!folders.empty()) {
    found.push_back((folders.size() == 1
                         ? folders.back().name
                         : counted(static_cast<std::int64_t>(folders.size()), "checkpoint") +
                               " up to " + folders.back().name) +
                    " in " + config.checkpoint.folder);
  }
  std::error_code ignored;
  if (fs::exists(MetricsFile::path_in(config.metrics.folder), ignored)) {
    found.push_back("metrics.jsonl in " + config.metrics.folder);
    replaced.push_back("metrics.jsonl");
  }
  for (const StepFolder& folder : folders) {
    if (folder.step == config.training.steps) replaced.push_back(folder.name);
  }
  const bool resume_expected = config.checkpoint.resume != "none";
  if (found.empty() || (replaced.empty() && !resume_expected)) return {};
  std::string text = "an earlier run left " + join(found, " and ");
  if (resume_expected) text += "; it is not resumed, this run begins at step 1";
  if (!replaced.empty()) text += "; this run replaces " + join(replaced, " and ");
  return text;
}

}  // namespace sluice
