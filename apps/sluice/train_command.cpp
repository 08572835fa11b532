// sluice train CONFIG.toml [overrides]: from a configuration to a Hugging Face directory.
//
//   parse   the configuration, every value with its origin
//   plan    the exact instruction list of every rank, proven before anything is allocated
//   build   data, weights, folders, opened and checked: a run that is refused leaves nothing behind
//   train   one thread a rank, all making the same calls in the same order; the weights are saved,
//           what was learned before an error too
//   close   the exit code
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "command_line.h"
#include "commands.h"
#include "sluice/job.h"
#include "sluice/parts/log.h"
#include "sluice/parts/rank_threads.h"
#include "sluice/plan.h"
#include "sluice/run_config.h"

namespace sluice {
namespace {

int train(const std::string& file, const Overrides& overrides) {
  const RunConfig config = load_run_config(file, overrides, sluice_environment());
  set_log_level(config.metrics.log_level);
  StopSignal stop;
  TrainingJob job(config, plan_of_config(config), stop);
  job.train();
  return job.close();
}

}  // namespace

void add_train_command(CLI::App& app, const Overrides& overrides, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "train", "Trains; prints the settings that are not the default and the plan, then steps.");
  const auto file = std::make_shared<std::string>(), level = std::make_shared<std::string>();
  add_config_file(*command, *file, "configuration (TOML)")->required();
  command->add_option("--log-level", *level, "as --metrics.log_level");
  for (const char* option : {"--profile", "--profile-steps"}) {
    add_not_built(*command, option, "trace of what ran", "leave it out");
  }
  command->callback([file, level, overrides, &exit_code] {
    require_single_process();
    Overrides all = overrides;
    if (!level->empty()) all.emplace_back("metrics.log_level", *level);
    exit_code = run_job([&] { return train(*file, all); });
  });
}

}  // namespace sluice
