#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
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

int write_quickstart(const std::string& given) {
  const fs::path folder = given.empty() ? "." : given;
  const std::vector<std::pair<fs::path, std::string>> files = {
      {folder / "quickstart-model" / "config.json", kQuickstartModel},
      {folder / "quickstart.toml", quickstart(require_torch("init").folder)}};
  std::error_code failed;
  for (const auto& [path, text] : files) {
    if (fs::exists(fs::symlink_status(path, failed)))
      refuse("the file exists already", path.string(), "name another folder, or remove it");
  }
  fs::create_directories(folder / "quickstart-model", failed);
  if (failed) {
    refuse("cannot make the folder: " + failed.message(), (folder / "quickstart-model").string(),
           "name another one");
  }
  for (const auto& [path, text] : files) {
    if (const int number = replace_file(path.string(), text))
      throw file_error(ErrorKind::kUsage, "cannot write the file", path.string(), number);
  }
  errno = 0;
  const std::string config = (folder / "quickstart.toml").lexically_normal().string();
  const auto word = [&](const fs::path& below) {
    return shell_word((folder / below).lexically_normal().string());
  };
  const std::string file = word("quickstart.toml");
  print(formatted("{}: a Llama of 3 million parameters on 4 pipeline stages\n\n", config) +
        formatted("  sluice plan {}\n  sluice train {}\n\nand after the training\n\n", file, file) +
        formatted("  sluice sample {} --prompt \"#include\"\n  sluice report {}\n",
                  word("outputs/checkpoint"), word("outputs")));
  finish_stdout();
  return 0;
}

}  // namespace

Command init_command() {
  const auto folder = std::make_shared<std::string>();
  return {
      .name = "init",
      .help = "Writes a quickstart, ready to train: a configuration and a tiny model.",
      .options = {{.names = "DIR",
                   .value = folder.get(),
                   .help = "folder to write to; default: the current one",
                   .if_empty = "the folder has no name",
                   .empty_remedy = "name a folder, or leave it out"}},
      .run = [folder] { return at_command("init", [&] { return write_quickstart(*folder); }); }};
}

}  // namespace sluice
