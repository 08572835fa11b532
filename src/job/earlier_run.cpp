#include "job/earlier_run.h"

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/text.h"
#include "checkpoint/read_manifest.h"
#include "checkpoint/step_folders.h"
#include "sluice/error.h"
#include "sluice/parts/metrics.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool will_be_saved(const RunConfig& config, const ResumePoint& resume, std::int64_t step) {
  const std::int64_t last = config.training.steps, interval = config.checkpoint.interval;
  return step > resume.done.steps && step <= last &&
         (step == last || (interval > 0 && step % interval == 0));
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
  const std::pair<const char*, std::string> inputs[] = {{"model.path", config.model.path},
                                                        {"model.adapter", config.model.adapter}};
  for (const auto& [key, path] : inputs) {
    if (path.empty()) continue;
    for (const StepFolder& folder : step_folders(config.checkpoint.folder)) {
      std::error_code ignored;
      if (folder.step > config.training.steps || !fs::equivalent(folder.path, path, ignored))
        continue;
      throw Error(ErrorKind::kUsage,
                  {.what = std::string(key) + " is '" + folder.name +
                           "' of checkpoint.folder, which this run may replace with its own step " +
                           std::to_string(folder.step),
                   .where = path,
                   .remedy = "set checkpoint.folder to another folder"});
    }
  }
}

std::string earlier_run_warning(const RunConfig& config, const ResumePoint& resume) {
  const std::vector<StepFolder> folders = step_folders(config.checkpoint.folder);
  std::vector<std::string> found, replaced;
  std::error_code ignored;
  if (!resume.checkpoint) {
    if (!folders.empty()) {
      found.push_back((folders.size() == 1
                           ? folders.back().name
                           : counted(static_cast<std::int64_t>(folders.size()), "checkpoint") +
                                 " up to " + folders.back().name) +
                      " in " + config.checkpoint.folder);
    }
    if (fs::exists(MetricsFile::path_in(config.metrics.folder), ignored)) {
      found.push_back("metrics.jsonl in " + config.metrics.folder);
      replaced.push_back("metrics.jsonl");
    }
  }
  for (const StepFolder& folder : folders) {
    if (!will_be_saved(config, resume, folder.step)) continue;
    replaced.push_back(folder.name);
    if (resume.checkpoint) found.push_back(folder.name + " in " + config.checkpoint.folder);
  }
  // Until this run, of a later generation, has a checkpoint.
  const bool another_is_newest =
      !folders.empty() &&
      (resume.checkpoint ? resume.generation != resume.checkpoint->manifest().generation
                         : was_committed(folders.back().path));
  if (found.empty() && another_is_newest)
    found.push_back(folders.back().name + " in " + config.checkpoint.folder);
  const bool is_asked_for =
      config.checkpoint.resume.kind == ResumeFrom::kNone && !another_is_newest;
  if (found.empty() || (replaced.empty() && is_asked_for)) return {};
  std::string text = "an earlier run left " + join(found, " and ") + "; this run ";
  if (!resume.checkpoint) {
    text += replaced.empty() ? "begins at step 1" : "begins at step 1 and ";
  } else if (replaced.empty()) {
    text += "goes on from step " + std::to_string(resume.done.steps);
  }
  if (!replaced.empty()) text += "replaces " + join(replaced, " and ");
  if (another_is_newest)
    text +=
        "; until it has a checkpoint of its own, checkpoint.resume = \"auto\" means the earlier "
        "run";
  return text;
}

}  // namespace sluice
