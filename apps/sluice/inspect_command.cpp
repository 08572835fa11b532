// sluice data inspect: what files of training data hold.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "data/data_words.h"
#include "data/inspect.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kShownText = 100;

struct InspectArguments {
  std::vector<std::string> files;
  std::string format = "auto", chat_template = "auto", tokenizer;
  std::optional<std::int64_t> rows;
  bool json = false;
};

template <typename Enum>
Enum meaning(const std::string& option, const std::string& word) {
  const std::vector<std::string> words = detail::words_in(detail::words_of(Enum()));
  if (std::find(words.begin(), words.end(), word) == words.end()) {
    throw Error(ErrorKind::kUsage, {.what = option + ": '" + word + "' is not one of its words",
                                    .remedy = suggest_name(word, words)});
  }
  return detail::meaning_of(detail::words_of(Enum()), word);
}

std::string word_of(DataFormat format) { return detail::word_of(detail::words_of(format), format); }

nlohmann::ordered_json as_json(const data::FileContents& file) {
  const auto number = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json object;
  object["path"] = file.path;
  object["format"] = word_of(file.format);
  if (!file.id_type.empty()) object["id_type"] = file.id_type;
  object["bytes"] = file.bytes;
  object[file.format == DataFormat::kJsonl ? "rows" : "documents"] = file.documents;
  object["tokens"] = number(file.tokens);
  object["counted_tokens"] = number(file.counted);
  object["longest_row"] = number(file.longest);
  object["largest_id"] = number(file.largest_id);
  if (file.format == DataFormat::kJsonl) object["fields"] = file.fields;
  nlohmann::ordered_json first = nlohmann::ordered_json::array();
  for (const data::FirstRow& row : file.first) {
    nlohmann::ordered_json shown = nlohmann::ordered_json::object();
    if (!row.source.empty()) shown["text"] = row.source;
    if (!row.ids.empty()) shown["ids"] = row.ids;
    if (!row.decoded.empty()) shown["decoded"] = row.decoded;
    first.push_back(std::move(shown));
  }
  object["first"] = std::move(first);
  return object;
}

std::string as_text(const data::FileContents& file) {
  TextTable table({{""}, {""}});
  const auto add = [&](const std::string& name, const std::string& value) {
    table.add_row({name, value});
  };
  const auto add_number = [&](const std::string& name, const auto& value) {
    if (value) add(name, with_commas(static_cast<std::int64_t>(*value)));
  };
  add("format", word_of(file.format) + (file.id_type.empty() ? "" : ", " + file.id_type));
  add("bytes", with_commas(static_cast<std::int64_t>(file.bytes)));
  add(file.format == DataFormat::kJsonl ? "rows" : "documents",
      with_commas(static_cast<std::int64_t>(file.documents)));
  if (file.tokens) {
    add_number("tokens", file.tokens);
  } else {
    add("tokens", "not known without --tokenizer");
  }
  if (file.format == DataFormat::kJsonl) {
    add_number("counted tokens", file.counted);
    add_number("longest row", file.longest);
  }
  add_number("largest id", file.largest_id);
  std::vector<std::string> fields;
  for (const auto& [name, rows] : file.fields)
    fields.push_back(printable(name) + " (" + with_commas(static_cast<std::int64_t>(rows)) + ")");
  if (!fields.empty()) add("fields", join(fields, ", "));
  std::string text = file.path + "\n" + table.to_string("  ");
  for (std::size_t i = 0; i < file.first.size(); ++i) {
    const data::FirstRow& row = file.first[i];
    text += "  " + std::to_string(i + 1) + ":";
    if (!row.source.empty()) text += " " + printable(row.source, kShownText);
    if (!row.ids.empty()) {
      std::vector<std::string> ids;
      for (const std::int32_t id : row.ids) ids.push_back(std::to_string(id));
      text += (row.source.empty() ? " [" : "\n     [") + join(ids, ", ") + "]";
    }
    if (!row.decoded.empty()) text += "\n     " + printable(row.decoded, kShownText);
    text += "\n";
  }
  return text;
}

void inspect(const InspectArguments& arguments) {
  data::InspectOptions options;
  options.format = meaning<DataFormat>("--format", arguments.format);
  options.chat_template = meaning<ChatTemplate>("--chat-template", arguments.chat_template);
  options.tokenizer = arguments.tokenizer;
  if (arguments.tokenizer == "auto") {
    throw Error(ErrorKind::kUsage, {.what = "--tokenizer auto: there is no model here",
                                    .remedy = "name the model's folder, or write bytes"});
  }
  options.first_rows = arguments.rows.value_or(options.first_rows);
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const std::string& path : arguments.files) {
    const data::FileContents file = data::inspect_file(path, options);
    if (arguments.json) {
      files.push_back(as_json(file));
    } else {
      std::cout << as_text(file);
    }
  }
  if (!arguments.json) return;
  const nlohmann::ordered_json object = {{"files", std::move(files)}};
  std::cout << object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
            << "\n";
}

}  // namespace

void add_inspect_command(CLI::App& data) {
  CLI::App* command = data.add_subcommand("inspect", "What files of training data hold.");
  const auto arguments = std::make_shared<InspectArguments>();
  command->add_option("FILE", arguments->files, "text, .jsonl, .bin of token ids")->required();
  command->add_option("--tokenizer", arguments->tokenizer,
                      "counts tokens of text: a tokenizer.json, a directory with one, or 'bytes'");
  command->add_option("--format", arguments->format, "as data.format; by default by the ending");
  command->add_option("--chat-template", arguments->chat_template, "as data.chat_template");
  add_count(*command, "--rows", arguments->rows, "so many rows are shown (3)", 0, 1000);
  command->add_flag("--json", arguments->json, "as JSON: {\"files\": [..]}");
  command->callback([arguments] { at_command("data inspect", [&] { inspect(*arguments); }); });
}

}  // namespace sluice
