// The program `sluice`, without LibTorch. It executes `sluice-run` for commands that need LibTorch.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "address_space.h"
#include "allocator_settings.h"
#include "base/format.h"
#include "base/json.h"
#include "base/nearest_name.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "found_torch.h"
#include "launched_config.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct CommandText {
  std::string_view name;
  std::string_view help;
  std::string_view more = "";  // shown only by the command's own --help
};

// Commands that sluice-run executes.
constexpr std::array kSibling = {
    CommandText{"train",
                "train CONFIG.toml [--section.key value | --section.key=value ...] "
                "[--log-level LEVEL]\n"
                "      [--profile FILE.json [--profile-steps A:B]]\n"
                "Trains a model; prints the non-default settings and the plan, then its steps.",
                "An override sets one key of the configuration: `sluice config reference` lists "
                "them, `sluice\nconfig show CONFIG.toml` prints their values. Data, weights and "
                "folders are checked before\nanything is created.\n\n"
                "  --log-level LEVEL    as --metrics.log_level\n"
                "  --profile FILE.json  at the end, also write a trace of every rank, for\n"
                "                       chrome://tracing and ui.perfetto.dev\n"
                "  --profile-steps A:B  the steps to trace, first to last; default 1:10\n"},
    CommandText{
        "eval",
        "eval CONFIG.toml [--section.key value | --section.key=value ...] "
        "[--checkpoint PATH] [--json]\n"
        "Computes the loss on the data, forward only.",
        "The mean loss over all sequences of data.files, each read once, in file "
        "order.\nCreates no file.\n\n"
        "  --checkpoint PATH  a directory with the weights, in place of model.path\n"
        "  --json             as JSON: {\"loss\", \"tokens\", \"perplexity\", \"counted\"}\n"},
    CommandText{"sample",
                "sample MODEL --prompt TEXT [--tokens N] [--temperature T] [--seed S] [--json]\n"
                "       [--section.key value ...]\n"
                "Continues a text, forward only.",
                "MODEL is a Hugging Face directory, a checkpoint, a folder of checkpoints or of a "
                "run (the last\ncheckpoint is used), or an exported graph. Creates no file.\n\n"
                "  --prompt TEXT    the text\n"
                "  --tokens N       new tokens, at most; default 64\n"
                "  --temperature T  divides the logits before a token is drawn; default 0: the "
                "likeliest token\n"
                "  --seed S         seed of the draw; default 0\n"
                "  --json           as JSON: {\"prompt\", \"text\", \"prompt_tokens\", \"tokens\", "
                "\"ended\"}\n"},
    CommandText{
        "checkpoint",
        "checkpoint list FOLDER [--json]\n"
        "sluice checkpoint verify PATH\n"
        "sluice checkpoint diff A B [--json]\n"
        "sluice checkpoint export PATH OUT [--merge [--base DIR]]\n"
        "Lists, verifies, compares and exports checkpoints.",
        "list    the checkpoints of FOLDER by step, each verified\n"
        "        --json: [{\"step\", \"path\", \"ok\", \"reason\"}]\n"
        "verify  compares every byte of a checkpoint with its manifest; exit 0 or 4\n"
        "diff    step, settings, extra values, ties and tensors that differ; A and B are\n"
        "        checkpoints or Hugging Face directories; exit 0 also when they differ\n"
        "export  the weights, config.json and the tokenizer as a Hugging Face directory;\n"
        "        OUT must be new or empty. An adapter is exported as a PEFT directory, or with\n   "
        "     --merge merged into its base model: DIR, or the one that the adapter names\n"},
};

constexpr std::array<std::string_view, 2> kTakesOverrides = {"plan", "config"};

Command command_of(const CommandText& text) {
  return {std::string(text.name), std::string(text.help.substr(text.help.rfind('\n') + 1))};
}

template <std::size_t N>
const CommandText* find_command(const std::array<CommandText, N>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const CommandText& command) { return command.name == name; });
  return found == table.end() ? nullptr : &*found;
}

bool asks_help(const std::vector<std::string>& arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::any_of(arguments.begin(), end,
                     [](const std::string& text) { return text == "--help" || text == "-h"; });
}

bool measures(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& text) {
    return text == "--measure" || text.starts_with("--measure=");
  });
}

std::vector<std::string> command_names() {
  std::vector<std::string> names = {"help",     "compare", "plan",   "config",    "split",
                                    "schedule", "launch",  "data",   "debug",     "metrics",
                                    "graph",    "init",    "report", "completion"};
  for (const CommandText& text : kSibling) names.emplace_back(text.name);
  return names;
}

// `words` are the arguments after `help`.
void require_known_command(const std::vector<std::string>& words) {
  const std::vector<std::string> names = command_names();
  if (words.empty() || std::find(names.begin(), names.end(), words.front()) != names.end()) return;
  throw Error(ErrorKind::kUsage, {.what = "unknown command '" + words.front() + "'",
                                  .where = "command 'sluice help'",
                                  .remedy = suggest_name(words.front(), names)});
}

// LibTorch cannot find its own files from a deleted working folder, and would end the process.
void require_working_folder() {
  std::error_code error;
  [[maybe_unused]] const std::filesystem::path here = std::filesystem::current_path(error);
  if (!error) return;
  throw Error(ErrorKind::kUsage, {.what = "the working folder no longer exists: " + error.message(),
                                  .where = ".",
                                  .remedy = "start the run from a folder that exists"});
}

constexpr const char* kAllocatorVariable = "GLIBC_TUNABLES";

// "" if sluice was built without LibTorch
constexpr std::string_view kBuiltWith = SLUICE_TORCH_VERSION;

[[noreturn]] void execute_sibling(const std::string& command, char** argv) {
  require_working_folder();
  const std::string sibling = sibling_program().string();
  if (!std::filesystem::exists(sibling) || needs_torch(sibling))
    require_address_space(bytes_of_torch(require_torch(command).folder));
  const char* const given = std::getenv(kAllocatorVariable);
  ::setenv(kAllocatorVariable, allocator_settings(given ? given : "").c_str(), 1);
  execv(sibling.c_str(), argv);
  throw Error(ErrorKind::kUsage,
              {.what = "cannot start 'sluice-run': " + std::string(std::strerror(errno)),
               .where = sibling,
               .remedy = "check its permissions"});
}

// For example ", found 2.13.0+cpu in /usr/lib/torch".
std::string found_text(const std::optional<FoundTorch>& found) {
  if (!found) return ", none found: training needs it";
  const std::string version = found->version.empty() ? "one" : found->version;
  return ", found " + version + " in " + found->folder;
}

void print_version(bool json) {
  const std::vector<std::string> backends = {"threads", "gloo"};
  const std::string torch(kBuiltWith);
  const std::optional<FoundTorch> found =
      torch.empty() ? std::nullopt : find_torch(sibling_program().string());
  if (json) {
    Json object;
    object["sluice"] = SLUICE_VERSION;
    object["torch"] = torch.empty() ? Json() : Json(torch);
    object["torch_found"] = found && !found->version.empty() ? Json(found->version) : Json();
    object["torch_folder"] = found ? Json(found->folder) : Json();
    object["compiler"] = SLUICE_COMPILER;
    object["backends"] = torch.empty() ? std::vector<std::string>() : backends;
    print_exact(object.dump() + "\n");
    return;
  }
  print("sluice " SLUICE_VERSION "\ntorch " +
        (torch.empty() ? "none (planner only)" : torch + found_text(found)) +
        "\ncompiler " SLUICE_COMPILER "\nbackends " +
        (torch.empty() ? "none" : join(backends, ", ")) + "\n");
}

int run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments.front() == "help") {
    const bool of_itself = arguments.size() > 1 && asks_help({arguments[1]});
    if (!of_itself) arguments.erase(arguments.begin());
    require_known_command(arguments);
    arguments.emplace_back("--help");
  }
  const std::string command = arguments.empty() ? std::string() : arguments.front();
  if (const CommandText* text = find_command(kSibling, command); text && asks_help(arguments)) {
    errno = 0;
    print(formatted("sluice {}\n{}", text->help, text->more));
    finish_stdout();
    return 0;
  }
  if (command == "train" || command == "eval") check_named_config(arguments);
  if (find_command(kSibling, command)) execute_sibling(command, argv);
  if (command == "plan" && measures(arguments) && !asks_help(arguments))
    execute_sibling("plan --measure", argv);

  // Remove the launched program's words first, because it has its own options.
  const std::vector<std::string> launched =
      command == "launch" ? take_launched(arguments) : std::vector<std::string>();
  Overrides overrides;
  std::vector<std::string> override_names;
  if (std::find(kTakesOverrides.begin(), kTakesOverrides.end(), command) != kTakesOverrides.end()) {
    overrides = take_overrides(arguments);
    for (const std::string& key : config_keys()) override_names.push_back("--" + key);
  }

  bool version = false, json = false;
  Command program = {
      .name = "sluice",
      .help = "Pipeline-parallel training in C++ on LibTorch.",
      .options = {{"-V,--version", &version,
                   "Prints the versions of sluice, torch and the compiler, and the backends."},
                  {"--json", &json, "With --version: prints JSON."}},
      .run = [&]() -> std::optional<int> {
        if (version) {
          print_version(json);
          return 0;
        }
        if (!json) return std::nullopt;
        throw Error(ErrorKind::kUsage, {.what = "--json is before the command",
                                        .remedy = "write it after the command, or with --version"});
      }};
  for (const CommandText& text : kSibling) program.commands.push_back(command_of(text));
  for (const Command& own :
       {plan_command(overrides), config_command(overrides), split_command(), schedule_command(),
        launch_command(launched, command_names()), data_command(), debug_command(),
        metrics_command(), compare_command(), graph_command(), init_command(), report_command(),
        Command{"help", "Prints this help, or the help of a command."}})
    program.commands.push_back(own);
  std::vector<CompletedText> texts;
  texts.reserve(kSibling.size() + kTakesOverrides.size());
  for (const CommandText& text : kSibling)
    texts.push_back({std::string(text.name), std::string(text.help) + "\n" + std::string(text.more),
                     text.name != "checkpoint"});
  for (const std::string_view name : kTakesOverrides)
    texts.push_back({std::string(name), "", /*takes_keys=*/true});
  program.commands.push_back(completion_command([=] { return program; }, texts));
  return run_program(program, arguments, override_names);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::begin_process();
  try {
    return sluice::run(argc, argv);
  } catch (...) {
    return sluice::report_error(std::current_exception());
  }
}
