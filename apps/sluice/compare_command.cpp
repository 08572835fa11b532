#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest_name.h"
#include "base/option_names.h"
#include "base/print.h"
#include "base/words.h"
#include "command_line.h"
#include "commands.h"
#include "report/compare/comparison_output.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct CompareArguments {
  std::vector<std::string> runs;
  std::optional<std::string> dtype, kind;
  std::optional<int> terms, layers;
  std::string start;
  bool json = false;
};

const detail::Words<TensorKind>& tensor_kinds() {
  static const detail::Words<TensorKind> words = {{"weights", TensorKind::kWeights},
                                                  {"gradients", TensorKind::kGradients}};
  return words;
}

CompareOptions options_of(const CompareArguments& arguments) {
  CompareOptions options;
  if (arguments.dtype) {
    options.dtype = find_float_word(*arguments.dtype);
    if (!options.dtype) {
      throw Error(ErrorKind::kUsage, {.what = "unknown dtype '" + *arguments.dtype + "'",
                                      .where = "--dtype",
                                      .remedy = suggest_name(*arguments.dtype, float_words())});
    }
  }
  if (arguments.kind)
    options.kind = detail::parse_word(tensor_kinds(), *arguments.kind, "kind", "--kind");
  if (arguments.terms) options.terms = *arguments.terms;
  if (arguments.layers) options.layers = *arguments.layers;
  options.start = arguments.start;
  return options;
}

int print_comparison(const CompareArguments& arguments) {
  if (arguments.runs.size() < 2) {
    throw Error(ErrorKind::kUsage,
                {.what = "a comparison needs two runs or more",
                 .remedy = "name each run's folder or file: sluice compare A B"});
  }
  std::vector<ComparedRun> runs;
  for (const std::string& run : arguments.runs) runs.push_back(read_compared_run(run, runs.size()));
  const RunComparison comparison = compare_runs(std::move(runs), options_of(arguments));
  errno = 0;
  if (arguments.json) {
    print_exact(run_comparison_json(comparison).dump() + "\n");
  } else {
    print(run_comparison_text(comparison));
  }
  finish_stdout();
  return comparison.verdict == RunVerdict::kBug ? static_cast<int>(ErrorKind::kInput) : 0;
}

}  // namespace

Command compare_command() {
  const auto a = std::make_shared<CompareArguments>();
  return {
      .name = "compare",
      .help =
          "Compares runs of any trainer: where they differ, which setting separates them, and "
          "whether rounding explains the difference.",
      .options =
          {{"RUN", &a->runs,
            "two or more of: metrics.jsonl, .csv, TensorBoard event file, .safetensors, or a "
            "folder with one; a label in front of the path names the layout: pp=2,tp=1:PATH"},
           {"--dtype", &a->dtype,
            "float64, float32, float16 or bfloat16: the narrowest arithmetic of the runs; default: "
            "as in run.json, else float32"},
           {"--terms", &a->terms,
            "additions of the longest sum, such as the tokens of a step; default: the logged "
            "tokens, else 4096 or the largest dimension",
            1, 1 << 30},
           {"--layers", &a->layers, "layers of the model; default: as seen in names, else 32"},
           {"--kind", &a->kind,
            "weights or gradients: what the tensors are; default: gradients if a name contains "
            "'grad'"},
           {"--start", &a->start,
            "the weights before training, .safetensors or a folder: relates differences of weights "
            "to "
            "how far training has moved them"},
           {"--json", &a->json, "as JSON"}},
      .footer = "Exit code 0: equal, or rounding explains every difference. 3: it does not.",
      .run = [a] { return at_command("compare", [&] { return print_comparison(*a); }); }};
}

}  // namespace sluice
