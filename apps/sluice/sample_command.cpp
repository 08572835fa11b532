#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/print.h"
#include "command/job.h"
#include "command_line.h"
#include "commands.h"
#include "config/run_config.h"
#include "number_option.h"

namespace sluice {
namespace {

struct SampleArguments {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<int> tokens, seed;
  std::optional<std::string> temperature;
  bool chat = false;
  bool json = false;
};

int sample_model(const SampleArguments& arguments, const Overrides& overrides) {
  RunConfig config = load_run_config("", overrides, sluice_environment());
  set_log_level(config.metrics.log_level);
  const bool is_graph = arguments.model.ends_with(".pt2");
  ModelOptions model = {.dtype = config.model.dtype};
  (is_graph ? model.graph : model.path) = arguments.model;
  if (is_graph) model.path = config.model.path;
  config.model = std::move(model);
  config.origins[is_graph ? "model.graph" : "model.path"] = "command 'sluice sample'";
  if (config.origins.at("parallelism.pipeline_parallel_degree") == "default")
    config.parallelism.pipeline.num_ranks = 1;
  SampleOptions options;
  options.tokens = arguments.tokens.value_or(options.tokens);
  options.seed = arguments.seed.value_or(0);
  if (arguments.temperature)
    options.temperature = number_from_0("--temperature", *arguments.temperature, "0.8");
  const std::optional<Continuation> result =
      sample(std::move(config), arguments.prompt.value_or(""), options);
  if (!result) return 0;
  arguments.json ? print_exact(to_json(*result) + "\n")
                 : print(result->prompt + result->text + "\n");
  return 0;
}

}  // namespace

Command sample_command(const Overrides& overrides) {
  const auto a = std::make_shared<SampleArguments>();
  return {
      .name = "sample",
      .help = "Continues a text, forward only.",
      .options = {required({"MODEL", &a->model,
                            "a model, an adapter, a checkpoint, a run's folder, or FILE.pt2"}),
                  required({"--prompt", &a->prompt, "the text"}),
                  {"--tokens", &a->tokens, "new tokens, at most; default 64"},
                  {"--temperature", &a->temperature,
                   "divides the logits before a token is drawn; default 0: the likeliest token"},
                  {.names = "--seed",
                   .value = &a->seed,
                   .help = "seed of the draw; default 0",
                   .min = 0,
                   .max = std::numeric_limits<int>::max()},
                  {"--chat", &a->chat, "not built yet: the prompt as a turn of a chat"},
                  {"--json", &a->json, "as JSON"}},
      .rules = {not_built("--chat", "write the model's chat format into --prompt")},
      .run = [=] { return run_job([&] { return sample_model(*a, overrides); }); }};
}

}  // namespace sluice
