#include "command/resume.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/printable.h"
#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/read_manifest.h"
#include "checkpoint/step_folders.h"
#include "comm/gather_messages.h"
#include "command/resume_differences.h"
#include "engine/rank_threads.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// later positions in the data would overflow
constexpr std::int64_t kLastSequence = std::int64_t{1} << 62;

int num_cores() { return resolve_threads_per_rank(/*threads_per_rank=*/0, /*ranks_on_machine=*/1); }

// Also checks that the manifest's step matches the folder's name.
Checkpoint open_verified(const std::string& path, std::optional<std::int64_t> step) {
  Checkpoint checkpoint(path);
  const Manifest& manifest = checkpoint.manifest();
  if (step && manifest.step != *step) {
    throw Error(
        ErrorKind::kCheckpoint,
        {.what = formatted("its name does not match its manifest of step {}", manifest.step),
         .where = path,
         .remedy = "give the folder its own name again"});
  }
  if (manifest.sequence > kLastSequence) {
    throw Error(ErrorKind::kCheckpoint,
                {.what = formatted("its position, sequence {}, is beyond the end of any data",
                                   manifest.sequence),
                 .where = path,
                 .remedy = "resume from another checkpoint"});
  }
  checkpoint.verify(num_cores());
  return checkpoint;
}

std::string reason_of(const Error& error, const std::string& path) {
  std::string where = error.where();
  if (where.starts_with(path)) where.erase(0, where.find_first_not_of('/', path.size()));
  return error.fact() + (where.empty() ? "" : "; " + where);
}

std::optional<std::int64_t> generation_of(const StepFolder& folder) {
  try {
    return read_manifest(folder.path).generation;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Sorts by generation, then by step. An unreadable folder counts as the latest generation, so that
// the search meets it first and warns.
std::vector<StepFolder> by_age(const std::string& folder) {
  std::vector<std::pair<std::optional<std::int64_t>, StepFolder>> aged;
  std::int64_t latest = 0;
  for (StepFolder& candidate : step_folders(folder)) {
    const std::optional<std::int64_t> generation = generation_of(candidate);
    latest = std::max(latest, generation.value_or(0));
    aged.emplace_back(generation, std::move(candidate));
  }
  std::stable_sort(aged.begin(), aged.end(), [&](const auto& a, const auto& b) {
    return a.first.value_or(latest) < b.first.value_or(latest);
  });
  std::vector<StepFolder> folders;
  for (auto& [generation, candidate] : aged) folders.push_back(std::move(candidate));
  return folders;
}

std::optional<Checkpoint> newest_verified(const std::string& folder,
                                          std::vector<std::string>& warnings) {
  const std::vector<StepFolder> folders = by_age(folder);
  // path of the newest damaged committed checkpoint, and what is wrong with it
  std::string damaged, damage;
  for (auto candidate = folders.rbegin(); candidate != folders.rend(); ++candidate) {
    std::string reason;
    std::error_code unknown;
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(candidate->path, unknown))) {
      reason = "a symbolic link, not a checkpoint";
    } else {
      try {
        return open_verified(candidate->path, candidate->step);
      } catch (const Error& error) {
        reason = reason_of(error, candidate->path);
        if (damaged.empty() && was_committed(candidate->path)) {
          damaged = candidate->path;
          damage = reason;
        }
      }
    }
    warnings.push_back(formatted("skipped the checkpoint {}: {}", candidate->path, reason));
  }
  if (damaged.empty()) return std::nullopt;
  throw Error(ErrorKind::kCheckpoint,
              {.what = "the run cannot resume from any checkpoint of checkpoint.folder; the newest "
                       "committed one: " +
                       damage,
               .where = damaged,
               .remedy = "set checkpoint.resume = \"none\" to start afresh, or another "
                         "checkpoint.folder"});
}

Checkpoint checkpoint_of_step(const std::string& folder, std::int64_t step) {
  std::vector<std::string> others;
  for (const StepFolder& candidate : step_folders(folder)) {
    if (candidate.step == step) return open_verified(candidate.path, step);
    if (was_committed(candidate.path)) others.push_back(std::to_string(candidate.step));
  }
  throw Error(ErrorKind::kCheckpoint,
              {.what = formatted("there is no checkpoint of step {}", step),
               .where = folder,
               .remedy = others.empty() ? "the folder has no checkpoint: set checkpoint.resume to "
                                          "\"auto\" or the path of a checkpoint"
                                        : formatted("there are checkpoints of {} {}",
                                                    others.size() == 1 ? "step" : "steps",
                                                    join(others, ", "))});
}

std::optional<Checkpoint> chosen(const CheckpointOptions& options,
                                 std::vector<std::string>& warnings) {
  const ResumeFrom& from = options.resume;
  if (from.kind == ResumeFrom::kNone) return std::nullopt;
  if (from.kind == ResumeFrom::kNewest) return newest_verified(options.folder, warnings);
  if (from.kind == ResumeFrom::kStep) return checkpoint_of_step(options.folder, from.step);
  return open_verified(from.path, std::nullopt);
}

void judge(const std::string& kind, const std::string& difference, const Checkpoint& checkpoint,
           const CheckpointOptions& options, const std::string& remedy,
           std::vector<std::string>& warnings) {
  if (difference.empty()) return;
  const std::string what =
      formatted("the checkpoint belongs to {}: {}", kind == "data" ? "other data" : "another model",
                printable(difference));
  if (std::find(options.allow.begin(), options.allow.end(), kind) != options.allow.end()) {
    warnings.push_back(what + "; the run still resumes from it, as checkpoint.allow permits");
    return;
  }
  throw Error(
      ErrorKind::kCheckpoint,
      {.what = what,
       .where = checkpoint.path(),
       .remedy = formatted("{}, set checkpoint.allow = [\"{}\"] to resume from it anyway, or "
                           "checkpoint.resume = \"none\" to start afresh",
                           remedy, kind)});
}

void require_same_kind(const Checkpoint& checkpoint, const RunConfig& config) {
  const bool was = holds_adapter(checkpoint.manifest());
  const bool is = !config.model.adapter.empty() || config.lora.rank > 0;
  if (was == is) return;
  throw Error(ErrorKind::kCheckpoint,
              {.what = was ? "the checkpoint has an adapter, but this run trains without one"
                           : "the checkpoint has all weights, but this run trains an adapter",
               .where = checkpoint.path(),
               .remedy = formatted("{}, or set checkpoint.resume = \"none\" to start afresh",
                                   was ? "set [lora] as the run of the checkpoint did"
                                       : "set model.path to the checkpoint")});
}

// Returns the generation of `from`, or a later one if the folder has checkpoints newer than `from`.
std::int64_t generation_after(const std::string& folder, const std::optional<Checkpoint>& from) {
  std::optional<std::int64_t> latest;
  bool goes_back = !from;
  for (const StepFolder& candidate : step_folders(folder)) {
    const std::optional<std::int64_t> generation = generation_of(candidate);
    if (!generation) continue;
    latest = std::max(latest.value_or(*generation), *generation);
    if (!from) continue;
    const Manifest& own = from->manifest();
    goes_back =
        goes_back || std::pair(*generation, candidate.step) > std::pair(own.generation, own.step);
  }
  if (goes_back && latest) return *latest + 1;
  return from ? from->manifest().generation : 0;
}

}  // namespace

ResumePoint new_run() {
  ResumePoint point;
  point.run = unique_suffix();
  return point;
}

ResumePoint find_resume_point(const RunConfig& config, const RunFingerprints& made_of) {
  ResumePoint point = new_run();
  point.checkpoint = chosen(config.checkpoint, point.warnings);
  point.generation = generation_after(config.checkpoint.folder, point.checkpoint);
  if (!point.checkpoint) return point;
  const Checkpoint& checkpoint = *point.checkpoint;
  const Manifest& manifest = checkpoint.manifest();
  require_same_kind(checkpoint, config);
  judge("model", model_difference(checkpoint, made_of), checkpoint, config.checkpoint,
        "give the model that its run started from", point.warnings);
  judge("data", data_difference(manifest, made_of), checkpoint, config.checkpoint,
        "give the data of its run", point.warnings);
  const std::string changes = changed_settings(manifest.settings, made_of.settings);
  if (!changes.empty())
    point.warnings.push_back(
        formatted("settings differ from those of {}: {}", checkpoint.path(), printable(changes)));
  // With epochs, the steps depend on where the run resumes, so the caller compares them.
  const std::string decay = config.training.epochs > 0 ? "" : decay_difference(manifest, config);
  if (!decay.empty()) point.warnings.push_back(decay);
  point.done = {manifest.step, {manifest.sequence}};
  point.run = manifest.run;
  return point;
}

bool is_finished(const RunConfig& config, const ResumePoint& resume) {
  return resume.checkpoint && resume.done.steps >= config.training.steps;
}

void require_free_steps(const RunConfig& config, const ResumePoint& resume) {
  if (config.checkpoint.commit != Commit::kMarker) return;
  for (const StepFolder& folder : step_folders(config.checkpoint.folder)) {
    if (folder.step <= resume.done.steps || folder.step > config.training.steps) continue;
    try {
      open_verified(folder.path, folder.step);
    } catch (const Error&) {
      continue;  // a save will move the damaged folder aside
    }
    throw Error(ErrorKind::kUsage,
                {.what = formatted("step {} is already committed, and checkpoint.commit = "
                                   "\"marker\" never replaces a checkpoint",
                                   folder.step),
                 .where = folder.path,
                 .remedy = "resume from it, remove it, or set another checkpoint.folder"});
  }
}

void require_same_resume_point(const ResumePoint& resume, const Group& world) {
  const auto text = [&] {
    if (!resume.checkpoint) return std::string("step 1");
    const Manifest& manifest = resume.checkpoint->manifest();
    return formatted("the checkpoint of step {} of run {}", manifest.step, manifest.run);
  };
  std::vector<std::string> of_ranks;
  for (Unpacker& message : gather_messages(
           world, Packer().add(text()).add(resume.done.position.sequence), "where to start")) {
    const auto begins = message.take<std::string>();
    of_ranks.push_back(formatted("{}, sequence {}", begins, message.take<std::int64_t>()));
    message.finish();
  }
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank] == of_ranks[0]) continue;
    throw Error(ErrorKind::kCheckpoint,
                {.what = formatted("rank 0 resumes from {}, rank {} from {}", of_ranks[0], rank,
                                   of_ranks[rank]),
                 .where = "checkpoint.folder",
                 .remedy = "use a folder that all ranks see"});
  }
}

}  // namespace sluice
