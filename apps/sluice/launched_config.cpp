#include "launched_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/log.h"
#include "job/launch_environment.h"
#include "plan/data_parallel.h"
#include "sluice/plan.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 4> kWithValue = {"--log-level", "--profile",
                                                        "--profile-steps", "--checkpoint"};

struct Launched {
  std::string file;
  Overrides overrides;
};

std::optional<Launched> parsed(std::vector<std::string> arguments) {
  Launched launched;
  launched.overrides = take_overrides(arguments);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool is_option = argument.size() > 1 && argument.front() == '-';
    if (!is_option && !launched.file.empty()) return std::nullopt;
    if (!is_option) {
      launched.file = argument;
    } else if (argument != "--json") {
      const std::string name = argument.substr(0, argument.find('='));
      if (std::find(kWithValue.begin(), kWithValue.end(), name) == kWithValue.end())
        return std::nullopt;
      const bool is_apart = name.size() == argument.size();
      if (is_apart && ++i == arguments.size()) return std::nullopt;
      if (name == "--log-level") {
        launched.overrides.emplace_back("metrics.log_level",
                                        is_apart ? arguments[i] : argument.substr(name.size() + 1));
      }
    }
  }
  return launched.file.empty() ? std::nullopt : std::optional(std::move(launched));
}

}  // namespace

void check_named_config(const std::vector<std::string>& command) {
  const auto named = parsed({command.begin() + 1, command.end()});
  std::error_code unknown;
  if (named && std::filesystem::is_regular_file(named->file, unknown))
    load_run_config(named->file, named->overrides, sluice_environment());
}

std::optional<RunConfig> launched_config(const std::vector<std::string>& command,
                                         int num_processes) {
  const auto launched = parsed({command.begin() + 1, command.end()});
  if (!launched) return std::nullopt;
  RunConfig config = load_run_config(launched->file, launched->overrides, sluice_environment());
  set_log_level(config.metrics.log_level);
  const PipelineOptions& pipeline = config.parallelism.pipeline;
  const int num_ranks = static_cast<int>(detail::ranks_of_run(pipeline));
  require_even_ranks({.num_processes = num_processes}, num_ranks, Launcher::kSluice);
  if (command.front() == "train") {
    require_adapter_base(config);
    if (!depends_on_machine(config)) plan_of_config(config);
    expand_data_files(config);
  }
  return config;
}

}  // namespace sluice
