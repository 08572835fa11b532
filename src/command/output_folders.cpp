#include "command/output_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "checkpoint/kept_tensors.h"
#include "checkpoint/read_manifest.h"
#include "checkpoint/step_folders.h"
#include "comm/gather_messages.h"
#include "command/inputs.h"
#include "io/check_writable.h"
#include "io/published_directory.h"
#include "kind/adapter_files.h"
#include "kind/model_kind.h"
#include "report/metrics_file.h"
#include "sluice/error.h"
#include "sluice/lora.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

ModelSpec saved_part(const ModelSpec& model) {
  return has_adapter(model) ? adapter_alone(model) : model;
}

// Returns the bytes of the largest file that a checkpoint may have.
// An adapter is saved as one file, so all of its parameters count. Other weights are saved in
// shards of at most kMaxShardBytes.
std::uint64_t largest_shard(const Plan& plan) {
  std::int64_t bytes = 1;
  if (has_adapter(plan.model)) {
    for (const LayerInfo& layer : adapter_alone(plan.model).layers) {
      for (const ParameterSpec& parameter : layer.parameters)
        bytes += dtype_bytes(parameter.dtype) * parameter.numel();
    }
    return static_cast<std::uint64_t>(bytes);
  }
  for (const RankPrediction& rank : plan.ranks)
    bytes = std::max({bytes, rank.memory.parameter_bytes, rank.memory.optimizer_bytes});
  return std::min(static_cast<std::uint64_t>(bytes), kMaxShardBytes);
}

// Assumes that a tensor's line in the manifest is as long as its entries in file header and index.
std::uint64_t checkpoint_bytes(const RunConfig& config, const Plan& plan) {
  std::uint64_t bytes = 0;
  for (const RankPrediction& rank : plan.ranks)
    bytes += static_cast<std::uint64_t>(rank.memory.optimizer_bytes);
  constexpr std::uint64_t kEntryBytes = 512;
  const ModelSpec saved = saved_part(plan.model);
  std::set<std::string> names;
  for (const LayerInfo& layer : saved.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      bytes += 4 * (kEntryBytes + parameter.name.size());
      names.insert(parameter.name);
    }
  }
  bytes += hf_directory_bytes(saved, source_directory(config));
  if (has_adapter(plan.model)) return bytes;
  const auto part = plan.model.source->part_of(config.model.path);
  const auto kept = tensors_to_keep(part.get(), config.model.path, names);
  return kept ? bytes + kept->bytes() : bytes;
}

// Network file systems may show a new folder late.
constexpr std::chrono::seconds kPatienceForFiles{5};

fs::path nearest_folder(const std::string& folder) {
  std::error_code unknown;
  fs::path path = fs::absolute(folder, unknown).lexically_normal();
  while (path.has_relative_path() && !fs::is_directory(path, unknown)) path = path.parent_path();
  return path;
}

bool sees(const fs::path& path) {
  std::error_code unknown;
  const auto give_up = std::chrono::steady_clock::now() + kPatienceForFiles;
  while (!fs::exists(path, unknown)) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// The processes of a killed launcher end a little later, so wait for their locks.
constexpr std::chrono::seconds kFolderPatience{5};

bool is_same_folder(int one, int other) {
  struct stat first, second;
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool is_held_by_another(int folder) {
  const auto give_up = std::chrono::steady_clock::now() + kFolderPatience;
  while (flock(folder, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return false;
    if (std::chrono::steady_clock::now() > give_up) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

bool will_be_saved(const RunConfig& config, const ResumePoint& resume, std::int64_t step) {
  const std::int64_t last = config.training.steps;
  return step > resume.done.steps && step <= last &&
         (step == last || config.checkpoint.interval.is_due(step));
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
                  {.what = formatted("{} is '{}' of checkpoint.folder, which this run may replace "
                                     "with its own step {}",
                                     key, folder.name, folder.step),
                   .where = path,
                   .remedy = "set checkpoint.folder to another folder"});
    }
  }
}

std::string earlier_run_warning(const RunConfig& config, const ResumePoint& resume) {
  const std::vector<StepFolder> folders = step_folders(config.checkpoint.folder);
  const auto in_folder = [&](const StepFolder& step) {
    return formatted("{} in {}", step.name, config.checkpoint.folder);
  };
  std::vector<std::string> found, replaced;
  std::error_code ignored;
  if (!resume.checkpoint) {
    if (!folders.empty()) {
      const auto count = static_cast<std::int64_t>(folders.size());
      const std::string several = count == 1 ? "" : counted(count, "checkpoint") + " up to ";
      found.push_back(several + in_folder(folders.back()));
    }
    if (fs::exists(MetricsFile::path_in(config.metrics.folder), ignored)) {
      found.push_back("metrics.jsonl in " + config.metrics.folder);
      replaced.push_back("metrics.jsonl");
    }
  }
  for (const StepFolder& folder : folders) {
    if (!will_be_saved(config, resume, folder.step)) continue;
    replaced.push_back(folder.name);
    if (resume.checkpoint) found.push_back(in_folder(folder));
  }
  // True if "auto" would resume from another run's checkpoint until this run saves one.
  const bool another_is_newest =
      !folders.empty() &&
      (resume.checkpoint ? resume.generation != resume.checkpoint->manifest().generation
                         : was_committed(folders.back().path));
  if (found.empty() && another_is_newest) found.push_back(in_folder(folders.back()));
  const bool is_asked_for =
      config.checkpoint.resume.kind == ResumeFrom::kNone && !another_is_newest;
  if (found.empty() || (replaced.empty() && is_asked_for)) return {};
  std::string text = formatted("an earlier run left {}; this run ", join(found, " and "));
  if (!resume.checkpoint) {
    text += replaced.empty() ? "starts at step 1" : "starts at step 1 and ";
  } else if (replaced.empty()) {
    text += formatted("resumes from step {}", resume.done.steps);
  }
  if (!replaced.empty()) text += "replaces " + join(replaced, " and ");
  if (another_is_newest)
    text +=
        "; until this run has a checkpoint, checkpoint.resume = \"auto\" resumes the earlier run";
  return text;
}

void require_outputs(const RunConfig& config, const Plan& plan) {
  check_writable(config.checkpoint.folder, ErrorKind::kCheckpoint, checkpoint_bytes(config, plan),
                 largest_shard(plan));
  check_writable(config.metrics.folder, ErrorKind::kUsage);
  MetricsFile::require_free_place(config.metrics.folder);
}

void require_shared_folder(const std::string& folder, const Group& world) {
  const fs::path place = nearest_folder(folder);
  std::string made;  // set on rank 0; if creation fails, the first save reports it
  std::error_code failed;
  if (world.rank() == 0) {
    const std::string name = ".sluice-shared-" + unique_suffix();
    if (fs::create_directory(place / name, failed)) made = name;
  }
  const std::string name = world.broadcast(made, 0).wait();
  int missing = -1, rank = 0;
  const Packer own = Packer().add(name.empty() || sees(place / name));
  for (Unpacker& message : gather_messages(world, own, "checkpoint.folder")) {
    if (!message.take<bool>() && missing < 0) missing = rank;
    message.finish();
    ++rank;
  }
  if (!made.empty()) fs::remove(place / made, failed);
  if (missing < 0) return;
  throw Error(
      ErrorKind::kCheckpoint,
      {.what = formatted("rank {} does not see the checkpoint folder that rank 0 sees", missing),
       .where = folder,
       .remedy = "set checkpoint.folder to a path that all machines share"});
}

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
      continue;  // the code that later writes to this folder reports the error
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
                {.what = formatted("another run {}", folder.holds),
                 .where = folder.path,
                 .remedy = formatted("end it, or set {} to another folder", folder.key)});
  }
}

RunFolders::~RunFolders() {
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) rmdir(path->c_str());
  for (const int lock : locks_) close(lock);
}

}  // namespace sluice
