#include "warned_plan.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>

#include "base/log.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "config/data_inputs.h"
#include "config/epochs.h"
#include "config/machine_memory.h"
#include "config/planned_device.h"
#include "kind/model_kind.h"

namespace sluice {
namespace {

// A plan reads at most this much data, so that it starts in milliseconds.
constexpr std::uintmax_t kCountedBytes = std::uintmax_t{32} << 20;

// Returns the steps in epochs, or why they are not known. A plan needs no data, so without data it
// returns "". Throws Error(kUsage) if validation.split leaves no row for training or validation.
std::string steps_note(RunConfig config, const ModelSpec& model) {
  const bool needs_rows = config.training.epochs > 0;
  const auto unknown = [&](const std::string& reason) {
    return needs_rows ? "training.epochs: the number of steps is not known yet: " + reason : "";
  };
  if (config.data.files.empty()) return unknown("data.files is empty");
  try {
    std::uintmax_t bytes = 0;
    for (const std::string& file : expand_data_files(config)) {
      if (file.ends_with(".gz")) return unknown("a plan does not unpack .gz files");
      bytes += std::filesystem::file_size(file);
    }
    if (bytes > kCountedBytes) return unknown("a plan reads at most 32 MiB of data");
    const TokenData data = open_data(config, training_data_options(config, model));
    set_steps(config, data);
    return steps_text(config, data);
  } catch (const Error& error) {
    if (error.where() == config.origins.at("validation.split")) throw;
    return unknown(error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return unknown(error.what());
  }
}

}  // namespace

Plan make_warned_plan(const RunConfig& config, const MeasuredMachine* measured) {
  Plan plan = plan_of_config(config, measured);
  const std::string price = layout_free_memory_cost(config, plan, measured);
  if (!price.empty()) plan.notes.push_back(price);
  if (plan.model.source->row_needs().tokens) require_tokenizer(config);
  const std::string steps = steps_note(config, plan.model);
  if (!steps.empty()) plan.notes.push_back(steps);
  const std::int64_t here =
      config.speed || planned_device(config.training.device, plan.program.mesh.num_ranks()).is_cuda
          ? std::numeric_limits<std::int64_t>::max()
          : machine_memory_bytes();
  if (const std::optional<Error> shortage = memory_shortage(plan, here)) {
    plan.warnings.push_back(shortage->what());
  }
  return plan;
}

void print_plan(const Plan& plan, bool json) {
  if (json) {
    print_exact(plan_json(plan));
  } else {
    const bool color = use_color(STDOUT_FILENO);
    print(describe_plan(plan, {color, terminal_width(STDOUT_FILENO)}),
          color ? Colors::kKeep : Colors::kReplace);
  }
  print_warnings(plan);
}

void print_warnings(const Plan& plan) {
  finish_stdout();
  for (const std::string& warning : plan.warnings) log_warning(warning);
}

}  // namespace sluice
