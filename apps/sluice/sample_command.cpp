// sluice sample MODEL --prompt TEXT: the text that a model goes on with. Creates nothing.
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "command/job.h"
#include "command_line.h"
#include "commands.h"
#include "config/run_config.h"

namespace sluice {
namespace {

constexpr int kDefaultTokens = 64;

struct SampleArguments {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<int> tokens;
  bool json = false;
};

int sample_model(const SampleArguments& arguments, const Overrides& overrides) {
  RunConfig config = load_run_config("", overrides, sluice_environment());
  set_log_level(config.metrics.log_level);
  config.model = {.path = arguments.model, .dtype = config.model.dtype};
  config.origins["model.path"] = "command 'sluice sample'";
  // One rank, unless a layout is asked for.
  if (config.origins.at("parallelism.pipeline_parallel_degree") == "default")
    config.parallelism.pipeline.num_ranks = 1;
  const std::optional<Continuation> result = sample(
      std::move(config), arguments.prompt.value_or(""), arguments.tokens.value_or(kDefaultTokens));
  if (!result) return 0;
  std::cout << (arguments.json ? to_json(*result) : result->prompt + result->text) << "\n";
  return 0;
}

}  // namespace

Command sample_command(const Overrides& overrides) {
  const auto a = std::make_shared<SampleArguments>();
  return {.name = "sample",
          .help = "Continues a text, forward only.",
          .options = {required({"MODEL", &a->model, "a model, a checkpoint or a folder of them"}),
                      required({"--prompt", &a->prompt, "the text"}),
                      {"--tokens", &a->tokens, "at most so many new tokens; 64 without it"},
                      {"--json", &a->json, "as JSON"}},
          .run = [=] { return run_job([&] { return sample_model(*a, overrides); }); }};
}

}  // namespace sluice
