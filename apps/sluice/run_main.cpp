// The program `sluice-run`, which `sluice` executes for commands that need LibTorch.
#include <c10/util/Logging.h>
#include <execinfo.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "address_space.h"
#include "command_line.h"
#include "commands.h"
#include "config/run_config.h"

namespace sluice {
namespace {

// `sluice` passes its own name as argv[0].
std::string program_name(const char* program) {
  const std::string own = "sluice-run";
  return std::filesystem::path(program).filename() == own ? own : "sluice";
}

// Hides Gloo's log messages about broken connections, which we report in one line. The user's
// TORCH_CPP_LOG_LEVEL overrides this.
void quiet_torch() {
  if (!std::getenv("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
}

// Loads libgcc_s by the first backtrace(). If LibTorch made this call when memory is full, loading
// would fail and end the process.
void load_unwinder() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);
}

int run(const std::string& name, std::vector<std::string> arguments) {
  Overrides overrides;
  std::vector<std::string> override_names;
  if (arguments.empty() || arguments.front() != "checkpoint") {
    overrides = take_overrides(arguments);
    for (const std::string& key : config_keys()) override_names.push_back("--" + key);
  }

  const Command program = {
      .name = name,
      .help = "Pipeline-parallel training in C++ on LibTorch.",
      .commands = {checkpoint_command(), eval_command(overrides), measure_command(overrides),
                   sample_command(overrides), train_command(overrides)}};
  return run_program(program, arguments, override_names);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::begin_process();
  sluice::quiet_torch();
  try {
    sluice::load_unwinder();
    sluice::require_address_space();
    return sluice::run(sluice::program_name(argv[0]), {argv + 1, argv + argc});
  } catch (...) {
    return sluice::report_error(std::current_exception());
  }
}
