// sluice eval CONFIG.toml [overrides]: the loss on the data, of the weights of model.path or of a
// checkpoint. Creates nothing.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "command_line.h"
#include "commands.h"
#include "sluice/error.h"
#include "sluice/job.h"
#include "sluice/lora.h"
#include "sluice/parts/log.h"
#include "sluice/parts/rank_threads.h"
#include "sluice/plan.h"
#include "sluice/run_config.h"

namespace sluice {
namespace {

struct EvalArguments {
  std::string file;
  std::optional<std::string> checkpoint;
  bool json = false;
};

void print(const Evaluation& result, bool json) {
  if (json) {
    nlohmann::ordered_json object;
    object["loss"] = result.loss;
    object["tokens"] = result.tokens;
    object["perplexity"] = result.perplexity();
    std::cout << object.dump() << "\n";
    return;
  }
  std::cout << "loss: " << result.loss << " nats a token, over " << result.tokens
            << " tokens\nperplexity: " << result.perplexity() << "\n";
}

// What is evaluated decides whether there is an adapter: a new one, of [lora], adds nothing yet.
void choose_adapter(RunConfig& config, const std::string& checkpoint) {
  config.lora = {};
  for (const char* key : {"lora.rank", "lora.alpha", "lora.dropout", "lora.target"})
    config.origins[key] = "default";
  if (!checkpoint.empty())
    config.model.adapter = is_adapter_directory(checkpoint) ? checkpoint : "";
}

void eval(const EvalArguments& arguments, const Overrides& overrides) {
  RunConfig config = load_run_config(arguments.file, overrides, sluice_environment());
  set_log_level(config.metrics.log_level);
  if (arguments.checkpoint && arguments.checkpoint->empty()) {
    throw Error(ErrorKind::kUsage, {.what = "--checkpoint is empty",
                                    .where = "command 'sluice eval'",
                                    .remedy = "name a directory with weights, or leave it out"});
  }
  choose_adapter(config, arguments.checkpoint.value_or(""));
  const Evaluation result =
      evaluate(config, plan_of_config(config), arguments.checkpoint.value_or(""));
  if (result.told_here) print(result, arguments.json);
}

}  // namespace

void add_eval_command(CLI::App& app, const Overrides& overrides) {
  CLI::App* command = app.add_subcommand("eval", "Loss on the data, forward only.");
  const auto arguments = std::make_shared<EvalArguments>();
  add_config_file(*command, arguments->file, "configuration (TOML)")->required();
  command->add_option("--checkpoint", arguments->checkpoint,
                      "a directory with the weights, in place of model.path");
  command->add_flag("--json", arguments->json, "as JSON");
  command->callback([arguments, overrides] {
    run_job([&] {
      eval(*arguments, overrides);
      return 0;
    });
  });
}

}  // namespace sluice
