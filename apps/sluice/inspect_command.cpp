#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest_name.h"
#include "base/print.h"
#include "base/printable.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "data/data_words.h"
#include "data/inspect.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kShownText = 100, kShownTokenText = 400, kShownIds = 32;

struct InspectArguments {
  std::vector<std::string> files;
  std::string fields, train_on;
  std::string format = "auto", chat_template = "auto", tokenizer;
  std::optional<int> rows;
  bool append_eos = false, assistant_only_loss = false, json = false;
};

template <typename Enum>
Enum meaning(const std::string& option, const std::string& word) {
  const std::vector<std::string> words = detail::words_in(detail::words_of(Enum()));
  if (std::find(words.begin(), words.end(), word) == words.end()) {
    throw Error(ErrorKind::kUsage, {.what = "'" + word + "' is not a value of " + option,
                                    .remedy = suggest_name(word, words)});
  }
  return detail::meaning_of(detail::words_of(Enum()), word);
}

std::map<std::string, std::string> field_names(const std::string& text) {
  std::map<std::string, std::string> names;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string pair = text.substr(begin, text.find(',', begin) - begin);
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      throw Error(ErrorKind::kUsage, {.what = "'" + pair + "' in --fields has no '='",
                                      .remedy = "for example --fields prompt=question"});
    }
    const std::string name = pair.substr(0, equals);
    if (!names.emplace(name, pair.substr(equals + 1)).second) {
      throw Error(ErrorKind::kUsage,
                  {.what = "--fields names '" + name + "' twice", .remedy = "keep one of them"});
    }
    begin += pair.size() + 1;
  }
  return names;
}

std::string word_of(DataFormat format) { return detail::word_of(detail::words_of(format), format); }

// For example "[3, 8 to 12]", or "" for a single number.
std::string sizes_text(const data::NumberField& field) {
  std::vector<std::string> sizes;
  for (const auto& [least, greatest] : field.sizes)
    sizes.push_back(least == greatest ? std::to_string(least)
                                      : formatted("{} to {}", least, greatest));
  return sizes.empty() ? "" : "[" + join(sizes, ", ") + "]";
}

Json numbers_json(const data::FileContents& file) {
  Json fields = Json::object();
  for (const auto& [name, field] : file.numbers) {
    Json sizes = Json::array();
    for (const auto& [least, greatest] : field.sizes)
      sizes.push_back(Json(std::vector{least, greatest}));
    const bool is_empty = field.least > field.greatest;
    fields[name] = {{"rows", field.rows},
                    {"integers", field.integers},
                    {"sizes", sizes},
                    {"least", is_empty ? Json() : Json(field.least)},
                    {"greatest", is_empty ? Json() : Json(field.greatest)}};
  }
  return fields;
}

Json as_json(const data::FileContents& file) {
  Json object;
  object["path"] = file.path;
  object["format"] = word_of(file.format);
  if (!file.id_type.empty()) object["id_type"] = file.id_type;
  object["bytes"] = file.bytes;
  object[file.format == DataFormat::kJsonl ? "rows" : "documents"] = file.documents;
  object["tokens"] = file.tokens;
  object["counted_tokens"] = file.counted;
  object["longest_row"] = file.longest;
  object["largest_id"] = file.largest_id;
  if (!file.shape.empty()) object["shape"] = file.shape;
  if (file.format == DataFormat::kJsonl) object["fields"] = file.fields;
  if (!file.numbers.empty()) object["numbers"] = numbers_json(file);
  Json first = Json::array();
  for (const data::FirstRow& row : file.first) {
    Json shown = Json::object();
    if (!row.source.empty()) shown["text"] = row.source;
    if (!row.ids.empty()) shown["ids"] = row.ids;
    if (!row.counted.empty()) {
      Json counted = Json::array();
      for (const bool is_counted : row.counted) counted.push_back(Json(is_counted));
      shown["counted"] = std::move(counted);
    }
    if (!row.decoded.empty()) shown["decoded"] = row.decoded;
    if (!row.marked.empty()) shown["marked"] = row.marked;
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
  if (!file.shape.empty()) add("rows of", file.shape);
  add("bytes", with_commas(static_cast<std::int64_t>(file.bytes)));
  add(file.format == DataFormat::kJsonl ? "rows" : "documents",
      with_commas(static_cast<std::int64_t>(file.documents)));
  for (const auto& [name, field] : file.numbers)
    add(printable(name),
        formatted("{}{}, {} to {}, in {}", field.integers ? "integers" : "numbers",
                  sizes_text(field), shortest(field.least), shortest(field.greatest),
                  counted(static_cast<std::int64_t>(field.rows), "row")));
  if (file.tokens) {
    add_number("tokens", file.tokens);
  } else if (file.numbers.empty()) {
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
  std::string text = printable(file.path) + "\n" + table.to_string("  ");
  for (std::size_t i = 0; i < file.first.size(); ++i) {
    const data::FirstRow& row = file.first[i];
    text += formatted("  {}:", i + 1);
    if (!row.source.empty()) text += " " + printable(row.source, kShownText);
    if (!row.ids.empty()) {
      std::vector<std::string> ids;
      for (const std::int32_t id : row.ids) {
        if (ids.size() >= kShownIds) {
          ids.emplace_back("..");
          break;
        }
        ids.push_back(std::to_string(id));
      }
      text += (row.source.empty() ? " [" : "\n     [") + join(ids, ", ") + "]";
    }
    const std::string& said = row.marked.empty() ? row.decoded : row.marked;
    if (!said.empty()) text += "\n     " + printable(said, kShownTokenText);
    text += "\n";
  }
  return text;
}

int inspect(const InspectArguments& arguments) {
  data::InspectOptions options;
  options.format = meaning<DataFormat>("--format", arguments.format);
  options.chat_template = meaning<ChatTemplate>("--chat-template", arguments.chat_template);
  options.tokenizer = arguments.tokenizer;
  if (arguments.tokenizer == "auto") {
    throw Error(ErrorKind::kUsage,
                {.what = "--tokenizer auto needs a model, which this command lacks",
                 .remedy = "name the model's folder, or write bytes"});
  }
  options.append_eos = arguments.append_eos;
  options.assistant_only_loss = arguments.assistant_only_loss;
  if (!arguments.train_on.empty()) options.train_on = {to_lower(arguments.train_on)};
  options.fields = field_names(arguments.fields);
  options.first_rows = arguments.rows.value_or(options.first_rows);
  Json files = Json::array();
  for (const std::string& path : arguments.files) {
    const data::FileContents file = data::inspect_file(path, options);
    for (const std::string& warning : file.warnings) log_warning(warning);
    if (arguments.json) {
      files.push_back(as_json(file));
    } else {
      print(as_text(file));
    }
  }
  if (!arguments.json) return 0;
  print_exact(Json{{"files", std::move(files)}}.dump() + "\n");
  return 0;
}

}  // namespace

Command inspect_command() {
  const auto a = std::make_shared<InspectArguments>();
  return {
      .name = "inspect",
      .help = "Shows what training files contain, with [ ] around the tokens that the loss counts.",
      .options = {required({"FILE", &a->files, "text, .jsonl, .json, or .bin with token ids"}),
                  {"--tokenizer", &a->tokenizer,
                   "count tokens with this tokenizer.json (or its directory), or with 'bytes'"},
                  {"--format", &a->format, "as data.format; default: by the file's ending"},
                  {"--chat-template", &a->chat_template, "as data.chat_template"},
                  {"--append-eos", &a->append_eos, "as data.append_eos = true"},
                  {"--assistant-only-loss", &a->assistant_only_loss,
                   "as data.assistant_only_loss = true"},
                  {"--train-on", &a->train_on, "as data.train_on: assistant, last or all"},
                  {"--fields", &a->fields,
                   "as data.fields, for example prompt=question,completion=answer"},
                  {"--rows", &a->rows, "rows to show; default 3", 0, 1000},
                  {"--json", &a->json, "as JSON: {\"files\": [..]}"}},
      .run = [a] { return at_command("data inspect", [&] { return inspect(*a); }); }};
}

}  // namespace sluice
