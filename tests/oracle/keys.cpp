// How sluice reads configurations that tests/oracle/check_keys.py has changed, and which keys it
// has in its table.
//
// usage: oracle_keys table
//        oracle_keys configs DIRECTORY        with lines of stdin, each a config.json
//        oracle_keys adapters BASE ADAPTER ...
//        oracle_keys expressions              with lines of stdin, each EXPRESSION<tab>NAME
//
// table: prints each row as FILE NAME USE FAMILIES NEUTRAL, separated by tabs.
// configs, adapters: prints one line each. The line is "LOSS NORM" of batch.safetensors with the
// weights in DIRECTORY or BASE, where NORM is the norm of all gradients, or "refused: " and the
// reason. expressions: prints 1 for a match, 0 for none, or the error.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "family/known_keys.h"
#include "family/lora/module_expression.h"
#include "io/adapter_directory.h"
#include "io/hf_shards.h"
#include "io/safetensors.h"
#include "kind/adapter_files.h"
#include "model/support.h"
#include "sluice/error.h"
#include "sluice/lora.h"
#include "sluice/parts/hf_directory.h"

namespace sluice::testing {
namespace {

void print_keys(const char* file, std::span<const detail::KnownKey> keys) {
  constexpr const char* kUses[] = {"read", "harmless", "refused"};
  for (const detail::KnownKey& key : keys) {
    std::printf("%s\t%s\t%s\t%s\t%s\n", file, key.name, kUses[static_cast<int>(key.use)],
                key.families, key.neutral);
  }
}

std::string numbers(ChunkChain& model, const std::string& directory) {
  model.train(false);
  const at::Tensor ids = SafetensorsReader(directory + "/batch.safetensors").read("input_ids");
  const Values batch{{"input_ids", ids}, {"labels", ids}};
  const Values outputs = model.forward(batch);
  const LossValue of_tokens = causal_lm_loss(outputs, batch);
  at::Tensor loss = of_tokens.loss / of_tokens.count;
  for (const AuxiliaryLoss& auxiliary : model.auxiliary())
    loss = loss + auxiliary.scale * outputs[auxiliary.value];
  model.backward(loss);
  double squares = 0;
  for (const auto& [name, gradient] : model.gradients())
    squares += gradient.to(at::kDouble).square().sum().item<double>();
  char line[64];
  std::snprintf(line, sizeof line, "%.9g %.9g", loss.item<double>(), std::sqrt(squares));
  return line;
}

std::string of_config(const std::string& config, const std::string& directory) {
  const ModelSpec spec = parse_model_spec(config, "config.json");
  const HfDirectory weights(directory);
  check_checkpoint(weights, spec);
  ChunkChain model(spec, {}, {}, /*auxiliary=*/true);
  for (Chunk& chunk : model.chunks()) {
    std::vector<ParameterInfo> parameters = chunk.parameters();
    load_parameters(weights, parameters, spec);
  }
  return numbers(model, directory);
}

std::string of_adapter(const std::string& path, const std::string& base) {
  const ModelSpec plain = read_model_spec(base);
  LayerOptions options;
  options.adapter = read_adapter(path, plain);
  ChunkChain model(with_adapter(plain, *options.adapter), {}, options);
  const HfDirectory weights(base);
  const AdapterDirectory adapter(path);
  for (Chunk& chunk : model.chunks()) {
    std::vector<ParameterInfo> own;
    for (const ParameterInfo& parameter : chunk.parameters())
      if (!is_adapter_parameter(parameter.name)) own.push_back(parameter);
    load_parameters(weights, own, plain);
    load_adapter(adapter, chunk.parameters());
  }
  return numbers(model, base);
}

template <typename Call>
void report(Call call) {
  std::string line;
  try {
    line = call();
  } catch (const Error& error) {
    line = std::string("refused: ") + error.what();
  }
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string matched(const std::string& line) {
  const std::size_t tab = line.find('\t');
  try {
    return detail::ModuleExpression(line.substr(0, tab)).matches(line.substr(tab + 1)) ? "1" : "0";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

int run(const std::vector<std::string>& words) {
  at::set_num_threads(1);
  const std::string& mode = words.at(0);
  if (mode == "table") {
    print_keys("config.json", detail::config_keys());
    print_keys("adapter_config.json", detail::adapter_keys());
  } else if (mode == "configs") {
    for (std::string config; std::getline(std::cin, config);)
      report([&] { return of_config(config, words.at(1)); });
  } else if (mode == "adapters") {
    for (std::size_t i = 2; i < words.size(); ++i)
      report([&] { return of_adapter(words[i], words.at(1)); });
  } else if (mode == "expressions") {
    for (std::string line; std::getline(std::cin, line);)
      std::printf("%s\n", matched(line).c_str());
  } else {
    std::fprintf(stderr, "usage: oracle_keys table | configs | adapters | expressions\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) { return sluice::testing::run({argv + 1, argv + argc}); }
