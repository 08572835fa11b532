#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "command/job.h"
#include "command_line.h"
#include "commands.h"
#include "config/run_config.h"
#include "output_file.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr const char* kProfile = "--profile";

struct TrainArguments {
  std::string file, log_level;
  std::optional<std::string> profile, profile_steps;
};

// Parses steps "A:B".
StepRange step_range(const std::string& text) {
  StepRange range;
  const char* const end = text.data() + text.size();
  const auto [colon, first_error] = std::from_chars(text.data(), end, range.first);
  if (first_error == std::errc() && colon != end && *colon == ':') {
    const auto [rest, last_error] = std::from_chars(colon + 1, end, range.last);
    if (last_error == std::errc() && rest == end && range.first >= 1 && range.first <= range.last)
      return range;
  }
  throw Error(ErrorKind::kUsage,
              {.what = "'" + text + "' is not a value of --profile-steps",
               .where = "command 'sluice train'",
               .remedy = "give the first and the last step, as 1:10, counted from 1"});
}

std::optional<StepRange> traced_steps(const TrainArguments& arguments) {
  if (!arguments.profile && arguments.profile_steps) {
    throw Error(ErrorKind::kUsage, {.what = "--profile-steps needs --profile",
                                    .where = "command 'sluice train'",
                                    .remedy = "name the file: --profile FILE.json"});
  }
  if (!arguments.profile) return std::nullopt;
  check_output_file(*arguments.profile, kProfile);
  return arguments.profile_steps ? step_range(*arguments.profile_steps)
                                 : StepRange{.after_resumed = true};
}

// Rejects a --profile path that the run itself writes, and an existing file that is not a trace.
void require_profile_apart(const std::string& path, const RunConfig& config) {
  namespace fs = std::filesystem;
  const fs::path file = fs::weakly_canonical(path);
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::kUsage,
                {.what = what, .where = path, .remedy = "give --profile another file"});
  };
  if (file == fs::weakly_canonical(fs::path(config.metrics.folder) / "metrics.jsonl"))
    refuse("the run writes its metrics there");
  const std::string checkpoints = fs::weakly_canonical(config.checkpoint.folder).string() + "/";
  if (file.string().starts_with(checkpoints)) refuse("the run keeps its checkpoints there");
  std::error_code unknown;
  if (!fs::is_regular_file(file, unknown) || fs::file_size(file, unknown) == 0) return;
  std::string start(64, '\0');
  std::ifstream(file).read(start.data(), static_cast<std::streamsize>(start.size()));
  if (start.find("\"traceEvents\"") == std::string::npos)
    refuse("the file exists and is not a trace");
}

// Only logs a failed write, because the run's own error is reported.
void write_profile_of_failure(const TrainingJob& job, const std::string& path) {
  const std::string trace = job.trace();
  if (trace.empty()) return;
  try {
    write_output_file(path, trace, kProfile);
  } catch (const Error& error) {
    log_warning(error.what());
  }
}

int train(const TrainArguments& arguments, const Overrides& overrides) {
  const RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  if (arguments.profile) require_profile_apart(*arguments.profile, config);
  set_log_level(config.metrics.log_level);
  const std::optional<StepRange> traced = traced_steps(arguments);
  StopSignal stop;
  TrainingJob job(config, stop, traced);
  try {
    job.train();
  } catch (...) {
    if (traced) write_profile_of_failure(job, *arguments.profile);
    throw;
  }
  // The trace is empty if the run had finished earlier.
  if (const std::string trace = job.trace(); !trace.empty())
    write_output_file(*arguments.profile, trace, kProfile);
  return job.close();
}

}  // namespace

Command train_command(const Overrides& overrides) {
  const auto a = std::make_shared<TrainArguments>();
  return {.name = "train",
          .help = "Trains a model; prints the non-default settings and the plan, then its steps.",
          .options = {required(config_file(a->file)),
                      {"--log-level", &a->log_level, "as --metrics.log_level"},
                      {kProfile, &a->profile, "FILE.json: write a trace of every rank"},
                      {"--profile-steps", &a->profile_steps, "A:B: the steps to trace"}},
          .run = [=] {
            Overrides all = overrides;
            if (!a->log_level.empty()) all.emplace_back("metrics.log_level", a->log_level);
            return run_job([&] { return train(*a, all); });
          }};
}

}  // namespace sluice
