#include <algorithm>
#include <memory>
#include <utility>

#include "base/nearest_name.h"
#include "base/print.h"
#include "base/text.h"
#include "commands.h"
#include "config/key_table.h"
#include "sluice/error.h"
#include "sluice/partition.h"
#include "sluice/schedule.h"

namespace sluice {
namespace {

const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

struct Offer {
  std::string path;
  std::vector<std::string> commands, options;
  bool takes_keys = false;
};

void add_names(Offer& offer, const Option& option) {
  for (const std::string& name : split(option.names, ','))
    if (name.starts_with("--")) offer.options.push_back(name);
}

void add_offers(const Command& command, const std::string& path, std::vector<Offer>& offers) {
  Offer offer{.path = path, .commands = {}, .options = {}};
  for (const Option& option : command.options) add_names(offer, option);
  for (const OptionGroup& group : command.groups)
    for (const Option& option : group.options) add_names(offer, option);
  for (const Command& below : command.commands) offer.commands.push_back(below.name);
  offer.options.emplace_back("--help");
  offers.push_back(std::move(offer));
  for (const Command& below : command.commands) add_offers(below, path + " " + below.name, offers);
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || c == '-' || c == '_'; }

// Finds options such as "--json", and subcommands such as CHECK in "sluice data CHECK ..".
Offer offer_of(const CompletedText& text) {
  Offer offer{
      .path = "sluice " + text.name, .commands = {}, .options = {}, .takes_keys = text.takes_keys};
  const auto add = [](std::vector<std::string>& words, std::string word) {
    if (std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(std::move(word));
  };
  for (std::size_t at = 0; (at = text.help.find("--", at)) != std::string::npos;) {
    std::size_t end = at + 2;
    while (end < text.help.size() && is_word(text.help[end])) ++end;
    const std::string name = text.help.substr(at, end - at);
    const bool is_key = end < text.help.size() && text.help[end] == '.';
    if (!is_key && end > at + 2) add(offer.options, name);
    at = end;
  }
  for (const std::string& line : split(text.help, '\n')) {
    const std::string name = text.name + " ";
    const std::size_t at = line.starts_with(name) ? 0 : line.find("sluice " + name);
    if (at == std::string::npos) continue;
    const std::size_t from = line.find(name, at) + name.size();
    std::size_t end = from;
    while (end < line.size() && is_word(line[end])) ++end;
    if (end > from && line[from] != '-') add(offer.commands, line.substr(from, end - from));
  }
  add(offer.options, "--help");
  return offer;
}

void add_text(const CompletedText& text, std::vector<Offer>& offers) {
  const Offer offer = offer_of(text);
  for (Offer& known : offers) {
    if (known.path != offer.path && !known.path.starts_with(offer.path + " ")) continue;
    known.takes_keys = offer.takes_keys;
    if (text.help.empty()) continue;
    known.commands = offer.commands;
    known.options = offer.options;
  }
  for (const std::string& command : offer.commands)
    offers.push_back({offer.path + " " + command, {}, offer.options});
}

void add_own_words(std::vector<Offer>& offers) {
  std::vector<std::string>& all = offers.front().commands;
  all.emplace_back("completion");
  for (Offer& offer : offers)
    if (offer.path == "sluice help") offer.commands = all;
  offers.push_back({.path = "sluice completion", .commands = kShells, .options = {"--help"}});
}

struct OfferedValues {
  std::string option, words;
};

std::vector<OfferedValues> offered_values() {
  std::vector<std::string> names;
  for (const ScheduleInfo& schedule : schedule_table()) names.push_back(schedule.name);
  const std::string schedules = join(names, " ");
  std::vector<OfferedValues> offered = {
      {"--name", schedules},
      {"--schedule", schedules},
      {"--convention", join(partition_conventions(), " ")},
      {"--round", "up down"},
      {"--remainder", "first last middle"},
      {"--stage-to-rank", "loop v"},
      {"--for", "sluice torch rendezvous"},
      {"--log-level", "debug info warning error"},
      {"--parallelism.pipeline_parallel_schedule", schedules + " auto"},
      {"--checkpoint.resume", "auto none"},
      {"--data.tokenizer", "auto bytes"}};
  for (const detail::Key& key : detail::key_table()) {
    std::vector<std::string> words = key.words;
    std::erase(words, "");
    if (key.kinds.front() == detail::Kind::kBool) words = {"true", "false"};
    if (!words.empty()) offered.push_back({"--" + key.full_name(), join(words, " ")});
  }
  return offered;
}

std::string words_of(const Offer& offer) {
  std::vector<std::string> words = offer.commands;
  words.insert(words.end(), offer.options.begin(), offer.options.end());
  return join(words, " ");
}

std::string paths_below(const std::vector<Offer>& offers, const char* separator) {
  std::vector<std::string> paths;
  for (const Offer& offer : offers)
    for (const std::string& command : offer.commands)
      paths.push_back("'" + offer.path + " " + command + "'");
  return join(paths, separator);
}

// Returns shell code that sets `path` and `words`. In it, "$@" holds the words before the completed
// one.
std::string path_and_words(const std::vector<Offer>& offers, const std::string& keys) {
  std::string text =
      "  local path=sluice words='' each last='' before=''\n"
      "  shift\n"
      "  for each in \"$@\"; do\n"
      "    before=\"$last\"\n"
      "    last=\"$each\"\n"
      "    case \"$path $each\" in\n"
      "      " +
      paths_below(offers, "|") +
      ") path=\"$path $each\" ;;\n"
      "      'sluice launch --') path=sluice ;;\n"
      "    esac\n"
      "  done\n"
      "  [ \"$last\" = = ] && last=\"$before\"\n"
      "  case \"$last\" in\n";
  for (const OfferedValues& values : offered_values())
    text += "    '" + values.option + "') echo '" + values.words + "'; return ;;\n";
  text += "  esac\n  case \"$path\" in\n";
  for (const Offer& offer : offers) {
    text += "    '" + offer.path + "') words='" + words_of(offer) + "'";
    text += offer.takes_keys ? "\" $_sluice_keys\" ;;\n" : " ;;\n";
  }
  return "_sluice_keys='" + keys + "'\n\n_sluice_words() {\n" + text +
         "  esac\n  echo \"$words\"\n}\n\n";
}

std::string bash_script(const std::vector<Offer>& offers, const std::string& keys) {
  return "# bash completion of sluice. In ~/.bashrc: source <(sluice completion bash)\n" +
         path_and_words(offers, keys) +
         "_sluice() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\"\n"
         "  local words=\"$(_sluice_words \"${COMP_WORDS[@]:0:COMP_CWORD}\")\"\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o default -F _sluice sluice\n";
}

std::string zsh_script(const std::vector<Offer>& offers, const std::string& keys) {
  return "#compdef sluice\n"
         "# zsh completion of sluice. In ~/.zshrc, after compinit: source <(sluice completion "
         "zsh)\n" +
         path_and_words(offers, keys) +
         "_sluice() {\n"
         "  local -a offered\n"
         "  offered=(${=\"$(_sluice_words \"${(@)words[1,CURRENT-1]}\")\"})\n"
         "  compadd -a offered\n"
         "  [[ ${words[CURRENT]} == -* ]] || _files\n"
         "}\n"
         "compdef _sluice sluice\n";
}

std::string fish_script(const std::vector<Offer>& offers, const std::string& keys) {
  std::string text =
      "# fish completion of sluice. In config.fish: sluice completion fish | source\n"
      "function __sluice_words\n"
      "  set -l path sluice\n"
      "  set -l typed (commandline -opc)\n"
      "  switch \"$typed[-1]\"\n";
  for (const OfferedValues& values : offered_values())
    text += "    case '" + values.option + "'\n      string split ' ' -- '" + values.words +
            "'\n      return\n";
  text +=
      "  end\n"
      "  for each in (commandline -opc)[2..]\n"
      "    switch \"$path $each\"\n"
      "      case " +
      paths_below(offers, " ") +
      "\n"
      "        set path \"$path $each\"\n"
      "      case 'sluice launch --'\n"
      "        set path sluice\n"
      "    end\n"
      "  end\n"
      "  switch \"$path\"\n";
  for (const Offer& offer : offers) {
    text += "    case '" + offer.path + "'\n      string split ' ' -- '" + words_of(offer) + "'\n";
    if (offer.takes_keys) text += "      string split ' ' -- '" + keys + "'\n";
  }
  return text +
         "  end\n"
         "end\n"
         "complete -c sluice -a '(__sluice_words)'\n";
}

}  // namespace

Command completion_command(const std::function<Command()>& program,
                           const std::vector<CompletedText>& others) {
  const auto shell = std::make_shared<std::string>();
  const auto run = [=]() -> std::optional<int> {
    if (std::find(kShells.begin(), kShells.end(), *shell) == kShells.end())
      throw Error(ErrorKind::kUsage,
                  {.what = "there is no completion for the shell '" + *shell + "'",
                   .where = "command 'sluice completion'",
                   .remedy = suggest_name(*shell, kShells)});
    std::vector<Offer> offers;
    add_offers(program(), "sluice", offers);
    for (const CompletedText& text : others) add_text(text, offers);
    add_own_words(offers);
    std::vector<std::string> keys = config_keys();
    for (std::string& key : keys) key.insert(0, "--");
    const auto script = *shell == "bash" ? bash_script : *shell == "zsh" ? zsh_script : fish_script;
    print_exact(script(offers, join(keys, " ")));
    return 0;
  };
  return {
      .name = "completion",
      .help = "Prints a script with which a shell completes commands, options, keys and values.",
      .options = {required({"SHELL", shell.get(), "bash, zsh or fish"})},
      .footer = "For this shell: source <(sluice completion bash)",
      .run = run};
}

}  // namespace sluice
