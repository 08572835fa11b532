#include "command/continue_command.h"

#include <filesystem>
#include <variant>

#include "base/format.h"
#include "base/text.h"
#include "config/key_table.h"
#include "config/toml_reader.h"

namespace sluice {
namespace {

constexpr const char* kResume = "checkpoint.resume";

// Quotes a string only if TOML would read it as another value, such as a number.
std::string override_text(const detail::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    const detail::RawValue read = detail::read_toml_value(*text);
    const bool is_same = read.type == detail::RawValue::Type::kString && read.string == *text;
    if (is_same && !text->starts_with("--") && !text->empty()) return *text;
  }
  return detail::to_toml(value);
}

}  // namespace

std::string continue_command(const RunConfig& config, const LaunchEnvironment& launched) {
  const bool resumes = config.checkpoint.resume.kind == ResumeFrom::kNewest;
  const std::string resume = resumes ? "" : formatted(" --{} auto", kResume);
  const bool is_alone = launched.launcher == Launcher::kNone;
  const bool is_local = launched.launcher == Launcher::kSluice && launched.one_machine();
  std::error_code unknown;
  if (!(is_alone || is_local) || !std::filesystem::is_regular_file(config.file, unknown))
    return "the same command" + (resumes ? "" : " with" + resume);
  std::string command = "sluice ";
  if (is_local) command += formatted("launch -n {} -- ", launched.layout.num_processes);
  command += "train " + shell_word(config.file);
  for (const detail::Key& key : detail::key_table()) {
    const std::string name = key.full_name();
    if (name == kResume || config.origins.at(name) != "--" + name) continue;
    command += formatted(" --{} {}", name, shell_word(override_text(key.get(config))));
  }
  return command + resume;
}

}  // namespace sluice
