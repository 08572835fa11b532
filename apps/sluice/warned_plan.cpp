#include "warned_plan.h"

#include <unistd.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "base/log.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "config/machine_memory.h"
#include "config/planned_device.h"
#include "kind/model_kind.h"

namespace sluice {

Plan make_warned_plan(const RunConfig& config, const MeasuredMachine* measured) {
  Plan plan = plan_of_config(config, measured);
  const std::string price = layout_free_memory_cost(config, plan, measured);
  if (!price.empty()) plan.notes.push_back(price);
  if (plan.model.source->row_needs().tokens) require_tokenizer(config);
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
