#include <filesystem>

#include "base/strict_json.h"
#include "base/text.h"
#include "config/import/argument_words.h"
#include "config/import/config_import.h"
#include "config/import/other_trainers.h"
#include "config/import/references.h"
#include "config/import/yaml_reader.h"
#include "config/run_config.h"
#include "config/toml_reader.h"
#include "sluice/error.h"

namespace sluice {

ImportedConfig import_config(const std::string& file, const std::string& from,
                             const std::string& out) {
  const std::string text = detail::read_config_file(file);
  const std::string ending = to_lower(std::filesystem::path(file).extension().string());
  const std::string_view start = trim(text);
  detail::YamlText settings;
  if (start.starts_with('{') && ending != ".yaml" && ending != ".yml") {
    settings.root = parse_strict_json(text, file, KeyOrder::kAsWritten, detail::kMaxYamlValues);
  } else if (ending != ".yaml" && ending != ".yml" && detail::has_arguments(text)) {
    settings.root = detail::parse_arguments(text, file);
  } else {
    settings = detail::parse_yaml(text, file);
  }
  if (!settings.root.is_object() || settings.root.empty())
    throw Error(ErrorKind::kUsage,
                {.what = "the file has no settings",
                 .where = file,
                 .remedy = "give a trainer's YAML or JSON of `name: value`, or its command line"});
  const detail::Trainer& trainer = detail::trainer_of(settings.root, from, file);
  if (trainer.is("torchtune")) settings.root = detail::with_references(settings.root, file);
  detail::ConfigImport import(settings.root, trainer, std::move(settings.lines),
                              std::filesystem::path(out).parent_path());
  try {
    import.run();
  } catch (const Error& error) {
    throw error.where().empty() ? error.at(file) : Error(error);
  }
  return {import.toml(file), import.notes()};
}

}  // namespace sluice
