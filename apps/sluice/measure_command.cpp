#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "base/system_text.h"
#include "command/job.h"
#include "command_line.h"
#include "commands.h"
#include "config/run_config.h"
#include "output_file.h"
#include "sluice/error.h"
#include "warned_plan.h"

namespace sluice {
namespace {

constexpr const char* kMeasure = "--measure";

struct MeasureArguments {
  std::string file, costs;
  bool json = false;
};

void require_apart(const std::string& costs, const std::string& config_file) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::kUsage, {.what = what,
                                    .where = std::string(kMeasure) + " " + costs,
                                    .remedy = "name another file"});
  };
  std::error_code unknown;
  if (std::filesystem::equivalent(costs, config_file, unknown))
    refuse("the costs would overwrite the configuration");
  if (!std::filesystem::is_regular_file(costs, unknown)) return;
  if (std::filesystem::file_size(costs, unknown) == 0) return;
  constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  const std::string text = read_text_or_empty(costs, kMaxBytes);
  if (text.find("\"sluice_costs\"") == std::string::npos)
    refuse("the file exists and holds no measured costs");
}

int measure(const MeasureArguments& arguments, const Overrides& overrides) {
  RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  require_apart(arguments.costs, arguments.file);
  check_output_file(arguments.costs, kMeasure);
  config.parallelism.costs.clear();
  check_plan_without_measurement(config);
  const MeasuredMachine measured = measure_machine(config);
  write_output_file(arguments.costs, measured.times, kMeasure);
  print_plan(make_warned_plan(config, &measured), arguments.json);
  return 0;
}

}  // namespace

Command measure_command(const Overrides& overrides) {
  const auto a = std::make_shared<MeasureArguments>();
  return {.name = "plan",
          .help = "Times the layers of a run on this machine.",
          .options = {required(config_file(a->file)),
                      {"--json", &a->json, "as JSON"},
                      required({kMeasure, &a->costs, "COSTS.json: write the costs to this file"})},
          .run = [=] { return run_job([&] { return measure(*a, overrides); }); }};
}

}  // namespace sluice
