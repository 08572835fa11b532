#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/hub_id.h"
#include "base/json.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "found_torch.h"
#include "quickstart_texts.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChatModelLine =
    "config = \"chat-model/config.json\"  # a tiny model with drawn weights; yours: path = "
    "\"DIRECTORY\"\n";

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  if (place == std::string::npos)
    throw Error(ErrorKind::kInternal, {.what = "the quickstart has no '" + from + "'"});
  return text.substr(0, place) + to + text.substr(place + from.size());
}

// Makes examples/quickstart.toml train on this LibTorch's headers and write to ./outputs.
std::string quickstart(const std::string& torch_folder) {
  std::string text = kQuickstart;
  text = replaced(text,
                  "#   make run        or        build/bin/sluice train examples/quickstart.toml",
                  "#   sluice train quickstart.toml");
  text =
      replaced(text, "[\"../build/torch-include/**/*.h\"] # a link that the build makes",
               "[" + Json(torch_folder + "/include/**/*.h").dump() +
                   "]  # headers of the LibTorch that was found; its path changes if you move it");
  text = replaced(text, "../outputs/quickstart/checkpoint", "outputs/checkpoint");
  return replaced(text, "../outputs/quickstart", "outputs");
}

[[noreturn]] void refuse(const std::string& what, const std::string& path,
                         const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = path, .remedy = remedy});
}

using NewFiles = std::vector<std::pair<fs::path, std::string>>;

// Writes all files, or none if one of them exists.
void write_files(const NewFiles& files) {
  std::error_code failed;
  for (const auto& [path, text] : files) {
    if (fs::exists(fs::symlink_status(path, failed)))
      refuse("the file exists already", path.string(), "name another folder, or remove it");
  }
  for (const auto& [path, text] : files) {
    const fs::path folder = path.parent_path();
    fs::create_directories(folder, failed);
    if (failed)
      refuse("cannot make the folder: " + failed.message(), folder.string(), "name another one");
    if (const int number = replace_file(path.string(), text))
      throw file_error(ErrorKind::kUsage, "cannot write the file", path.string(), number);
  }
  errno = 0;
}

std::string word_below(const fs::path& folder, const char* name) {
  return shell_word((folder / name).lexically_normal().string());
}

int write_quickstart(const fs::path& folder) {
  write_files({{folder / "quickstart-model" / "config.json", kQuickstartModel},
               {folder / "quickstart.toml", quickstart(require_torch("init").folder)}});
  const std::string config = (folder / "quickstart.toml").lexically_normal().string();
  const std::string file = word_below(folder, "quickstart.toml");
  print(formatted("{}: a Llama of 3 million parameters on 4 pipeline stages\n\n", config) +
        formatted("  sluice plan {}\n  sluice train {}\n\nand after the training\n\n", file, file) +
        formatted("  sluice sample {} --prompt \"#include\"\n  sluice report {}\n",
                  word_below(folder, "outputs/checkpoint"), word_below(folder, "outputs")));
  finish_stdout();
  return 0;
}

// The path of the model's directory from `folder`.
std::string path_of_model(const std::string& model, const fs::path& folder) {
  std::error_code failed;
  if (!fs::is_regular_file(fs::path(model) / "config.json", failed)) {
    const std::string advice = download_advice(model);
    refuse("the directory has no config.json", model,
           advice.empty() ? "name a Hugging Face directory" : advice);
  }
  if (fs::path(model).is_absolute()) return model;
  const fs::path here = fs::weakly_canonical(fs::absolute(model), failed);
  return here.lexically_relative(fs::weakly_canonical(fs::absolute(folder), failed)).string();
}

int write_chat_start(const fs::path& folder, const std::string& model) {
  std::string text = kChatConfig;
  NewFiles files = {{folder / "chats.jsonl", kChatRows}};
  if (model.empty()) {
    files.emplace_back(folder / "chat-model" / "config.json", kChatModel);
    files.emplace_back(folder / "chat-model" / "tokenizer.json", kChatTokenizer);
  } else {
    text = replaced(text, kChatModelLine,
                    "path = " + Json(path_of_model(model, folder)).dump() + "\n");
    text = replaced(text, "rank = 0 ", "rank = 8 ");
    text = replaced(text, "lr = 3e-3", "lr = 2e-4");
  }
  files.emplace_back(folder / "finetune.toml", text);
  write_files(files);
  const std::string file = word_below(folder, "finetune.toml");
  print(formatted("{}: {} on the ten conversations of {}\n\n",
                  (folder / "finetune.toml").lexically_normal().string(),
                  model.empty() ? "a tiny model" : "an adapter",
                  (folder / "chats.jsonl").lexically_normal().string()) +
        formatted("  sluice plan {}\n  sluice train {}\n", file, file));
  finish_stdout();
  return 0;
}

}  // namespace

Command init_command() {
  struct Arguments {
    std::string folder, model;
    bool chat = false;
  };
  const auto a = std::make_shared<Arguments>();
  return {.name = "init",
          .help = "Writes a start that is ready to train: a configuration and a tiny model.",
          .options = {{.names = "DIR",
                       .value = &a->folder,
                       .help = "folder to write to; default: the current one",
                       .if_empty = "the folder has no name",
                       .empty_remedy = "name a folder, or leave it out"},
                      {"--chat", &a->chat, "a commented fine-tuning configuration and ten rows"},
                      {"--model", &a->model, "Hugging Face directory to fine-tune"}},
          .rules = {needs("--model", "--chat")},
          .run = [a] {
            return at_command("init", [&] {
              const fs::path folder = a->folder.empty() ? "." : a->folder;
              return a->chat ? write_chat_start(folder, a->model) : write_quickstart(folder);
            });
          }};
}

}  // namespace sluice
