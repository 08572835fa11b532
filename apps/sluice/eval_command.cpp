#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "base/log.h"
#include "base/print.h"
#include "command/job.h"
#include "command_line.h"
#include "commands.h"
#include "config/run_config.h"
#include "sluice/error.h"
#include "sluice/lora.h"
#include "sluice/plan.h"

namespace sluice {
namespace {

struct EvalArguments {
  std::string file;
  std::optional<std::string> checkpoint;
  bool json = false;
};

std::string text_of(const Evaluation& result) {
  std::ostringstream text;
  if (result.counted != "tokens") {
    text << "loss: " << result.loss << ", the mean over " << result.tokens << " " << result.counted
         << "\n";
  } else {
    text << "loss: " << result.loss << " nats a token, over " << result.tokens
         << " tokens\nperplexity: " << result.perplexity() << "\n";
  }
  return text.str();
}

// Uses an adapter only if the evaluated weights have one. A new adapter would not change the loss.
void choose_adapter(RunConfig& config, const std::string& checkpoint) {
  config.lora = {};
  for (const char* key : {"lora.rank", "lora.alpha", "lora.dropout", "lora.target"})
    config.origins[key] = "default";
  if (!checkpoint.empty())
    config.model.adapter = is_adapter_directory(checkpoint) ? checkpoint : "";
}

int eval(const EvalArguments& arguments, const Overrides& overrides) {
  RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  set_log_level(config.metrics.log_level);
  if (arguments.checkpoint && arguments.checkpoint->empty()) {
    throw Error(ErrorKind::kUsage, {.what = "--checkpoint is empty",
                                    .where = "command 'sluice eval'",
                                    .remedy = "name a directory with weights, or leave it out"});
  }
  choose_adapter(config, arguments.checkpoint.value_or(""));
  require_adapter_base(config);
  const Evaluation result =
      evaluate(config, plan_of_config(config), arguments.checkpoint.value_or(""));
  if (result.prints_here)
    arguments.json ? print_exact(to_json(result) + "\n") : print(text_of(result));
  return 0;
}

}  // namespace

Command eval_command(const Overrides& overrides) {
  const auto a = std::make_shared<EvalArguments>();
  return {.name = "eval",
          .help = "Computes the loss on the data, forward only.",
          .options = {required(config_file(a->file)),
                      {"--checkpoint", &a->checkpoint,
                       "a directory with the weights, in place of model.path"},
                      {"--json", &a->json, "as JSON"}},
          .run = [=] { return run_job([&] { return eval(*a, overrides); }); }};
}

}  // namespace sluice
