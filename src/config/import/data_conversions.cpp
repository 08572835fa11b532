#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "config/import/config_import.h"
#include "config/import/conversions.h"
#include "config/toml_reader.h"

namespace sluice::detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFilesKey = "data.files";
constexpr const char* kAssistantOnly = "data.assistant_only_loss";

bool is_there(const std::string& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

bool is_data_file(const std::string& path) {
  static const std::vector<std::string> kEndings = {".json", ".jsonl", ".txt",   ".csv",
                                                    ".gz",   ".zst",   ".arrow", ".parquet"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](const std::string& ending) { return path.ends_with(ending); });
}

std::string last_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.empty() ? fs::path(path).parent_path().filename().string() : name;
}

// Returns the file that `command` downloads from the Hub.
std::string hub_file(ConfigImport& import, const std::string& id, const Json& entry) {
  // Parts of one data set are different files.
  std::string part;
  for (const char* named : {"name", "split"}) {
    if (!entry.at(named).is_string()) continue;
    const std::string word = entry.at(named).text();
    const std::string name_of_part = word.substr(0, word.find('['));  // of "train[:10%]"
    if (name_of_part != "train") part += "-" + name_of_part;
  }
  std::replace_if(
      part.begin(), part.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  std::string out = "data/" + last_name(id) + part + ".jsonl";
  std::string arguments = Json(id).dump();
  for (const char* named : {"name", "data_files", "revision"}) {
    const Json& value = entry.at(named);
    if (value.is_string() || value.is_array())
      arguments += std::string(", ") + named + "=" + value.dump();
  }
  const Json& split = entry.at("split");
  arguments += ", split=" + Json(split.is_string() ? split.text() : "train").dump();
  import.prepare("python3 -c " + shell_word("from datasets import load_dataset; load_dataset(" +
                                            arguments + ").to_json(" + Json(out).dump() + ")"));
  return out;
}

// The files of one data set, which is a path, a data set of the Hub, or a loader ("json") with
// `data_files`.
std::vector<std::string> files_of(ConfigImport& import, const Json& entry) {
  const std::string path = entry.at("path").is_string() ? entry.at("path").text() : "";
  std::vector<std::string> named;
  const Json& data_files = entry.at("data_files");
  if (data_files.is_string()) named.push_back(data_files.text());
  if (data_files.is_array())
    for (const Json& file : data_files.list())
      if (file.is_string()) named.push_back(file.text());
  const bool is_loader = path == "json" || path == "text" || path == "csv" || path == "parquet";
  if (is_loader) return named;
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    if (named.empty()) return {path + "/*"};
    for (std::string& file : named) file = (fs::path(path) / file).string();
    return named;
  }
  if (path.empty()) return named;
  if (is_there(path) || is_data_file(path) || path.starts_with('.') || path.starts_with('/'))
    return {path};
  return {hub_file(import, path, entry)};
}

// Whether prompts and the user's turns count for the loss.
void set_counted(ConfigImport& import, bool counts_all) {
  if (counts_all && ConfigImport::has_key("data.train_on"))
    import.set("data.train_on", Json("all"));
  else
    import.set(kAssistantOnly, Json(!counts_all));
}

enum class RowKind { kText, kAlpaca, kChat, kOther };

RowKind kind_of_rows(const std::string& type) {
  const std::string word = type.substr(0, type.find_first_of(".:"));
  if (word == "completion" || word == "pretrain") return RowKind::kText;
  if (word == "alpaca" || word == "alpaca_chat" || word == "alpaca_w_system")
    return RowKind::kAlpaca;
  if (word == "chat_template" || word == "sharegpt" || word == "chatml" || word == "llama3")
    return RowKind::kChat;
  return RowKind::kOther;
}

void add_files(ConfigImport& import, const char* key, const std::vector<std::string>& files) {
  Json::List list;
  if (const Json* earlier = import.value_of(key)) list = earlier->list();
  for (const std::string& file : files) {
    const Json path(import.relocated(file));
    if (std::find(list.begin(), list.end(), path) == list.end()) list.push_back(path);
  }
  if (!list.empty()) import.set(key, Json(list));
}

// The name that sluice gives to a renamed field, or "".
std::string field_of(const std::string& key) {
  if (key == "field_messages") return "messages";
  if (key == "field") return "text";
  for (const char* name : {"instruction", "input", "output", "system"})
    if (key == std::string("field_") + name) return name;
  return "";
}

// Names that sluice recognises without data.fields.
bool is_known_field(const std::string& field, const std::string& name) {
  return field == name || (field == "messages" && name == "conversations");
}

// Whether sluice recognises messages whose fields have these names.
bool is_known_message(const std::string& role, const std::string& content) {
  return (role == "from" && content == "value") || (role == "role" && content == "content");
}

// The names that the rows of one data set give to sluice's fields.
Json renamed_fields(const Json& entry) {
  Json fields = Json::object();
  std::string role = "from", content = "value";
  const auto read = [](const Json& value, std::string& name) {
    if (value.is_string()) name = value.text();
  };
  for (const Json::Member& member : entry.members()) {
    const std::string ours = field_of(member.key);
    if (ours.empty() || !member.value.is_string()) continue;
    if (!is_known_field(ours, member.value.text())) fields.add(ours, member.value);
  }
  read(entry.at("message_field_role"), role);
  read(entry.at("message_field_content"), content);
  const Json& mappings = entry.at("message_property_mappings");
  if (mappings.is_object()) {
    read(mappings.at("role"), role);
    read(mappings.at("content"), content);
  }
  if (is_known_message(role, content)) return fields;
  fields.add("role", Json(role));
  fields.add("content", Json(content));
  return fields;
}

void set_fields(ConfigImport& import, const Json& entry, const std::string& part) {
  const Json fields = renamed_fields(entry);
  if (fields.empty()) return;
  const Json* earlier = import.value_of("data.fields");
  if (earlier && !(*earlier == fields))
    import.leave_out("data.fields has the names of another data set", part);
  else
    import.set("data.fields", fields);
}

void read_entry(ConfigImport& import, const Json& entry, const std::string& part) {
  for (const Json::Member& member : entry.members()) {
    const std::string& key = member.key;
    const Json& value = member.value;
    const std::string text = value.is_string() ? value.text() : "";
    const auto leave = [&](const std::string& reason) {
      import.leave_out(reason, formatted("{}.{}", part, key));
    };
    const bool is_name =
        !field_of(key).empty() || key == "message_field_role" || key == "message_field_content";
    if (value.is_null() || key == "path" || key == "data_files" || (is_name && value.is_string()))
      continue;
    if (key == "type") {
      if (value.is_object())
        leave("sluice takes no prompt of your own: write rows of messages");
      else if (kind_of_rows(text) == RowKind::kOther)
        leave("sluice reads rows of text, messages, alpaca and sharegpt, not '" + text + "'");
    } else if (key == "split" || key == "name" || key == "revision") {
      if (is_there(entry.at("path").is_string() ? entry.at("path").text() : ""))
        leave("a local file is read whole");
    } else if (key == "ds_type") {
      if (text != "json" && text != "text")
        leave("sluice reads .jsonl, .json and text; convert the file first");
    } else if (key == "message_property_mappings" && value.is_object()) {
      for (const Json::Member& each : value.members())
        if (each.key != "role" && each.key != "content")
          import.leave_out("this field of messages is not read",
                           formatted("{}.{}.{}", part, key, each.key));
    } else if (key == "roles_to_train") {
      if (value.shown() != "[\"assistant\"]" && value.shown() != "[\"gpt\"]")
        leave("only the assistant's turns count");
    } else if (key == "chat_template") {
      import_chat_template(import, value);
    } else {
      leave("rows are read as docs/data.md describes");
    }
  }
  set_fields(import, entry, part);
}

void read_datasets(ConfigImport& import, const Json& value, const char* files_key) {
  if (value.is_string()) {
    add_files(import, files_key, files_of(import, Json({{"path", value}})));
    return;
  }
  const Json::List entries = value.is_object()  ? Json::List{value}
                             : value.is_array() ? value.list()
                                                : Json::List{};
  if (entries.empty()) return import.leave_out("no data set with a path");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Json entry = entries[i].is_string() ? Json({{"path", entries[i]}}) : entries[i];
    const std::string part = value.is_array() ? formatted("[{}]", i) : "";
    if (!entry.is_object()) {
      import.leave_out("not a data set", part);
      continue;
    }
    read_entry(import, entry, part);
    const std::vector<std::string> files = files_of(import, entry);
    if (files.empty()) import.leave_out("the data set has no path", part);
    add_files(import, files_key, files);
    const Json& type = entry.at("type");
    const RowKind kind = kind_of_rows(type.is_string() ? type.text() : "");
    if (kind == RowKind::kChat || kind == RowKind::kAlpaca)
      set_counted(import, import.is_on("train_on_inputs"));
  }
}

// LLaMA-Factory's dataset_info.json, which names the files of data sets. Null if there is none.
Json dataset_info(const std::string& folder) {
  const std::string file = folder + "/dataset_info.json";
  if (!is_there(file)) return Json();
  return parse_strict_json(read_config_file(file), file, KeyOrder::kAsWritten);
}

}  // namespace

void import_datasets(ConfigImport& import, const Json& value) {
  read_datasets(import, value, kFilesKey);
}

void import_validation_data(ConfigImport& import, const Json& value) {
  if (import.trainer().is("llama-factory")) return import.leave_out("set validation.files");
  read_datasets(import, value, "validation.files");
}

// LLaMA-Factory: names in dataset_info.json, separated by commas. Hugging Face: one path.
void import_dataset_name(ConfigImport& import, const Json& value) {
  std::string names = value.is_string() ? value.text() : "";
  if (value.is_array())
    for (const Json& name : value.list())
      if (name.is_string()) names += (names.empty() ? "" : ",") + name.text();
  if (names.empty()) return import.leave_out("no name of a data set");
  if (!import.trainer().is("llama-factory")) {
    Json entry({{"path", Json(names)}});
    for (const auto& [theirs, ours] :
         {std::pair("dataset_config", "name"), std::pair("dataset_train_split", "split")})
      if (!import.text_of(theirs).empty()) entry.add(ours, import.source(theirs));
    add_files(import, kFilesKey, files_of(import, entry));
    return;
  }
  const std::string given = import.text_of("dataset_dir");
  const std::string folder = given.empty() ? "data" : given;
  const Json info = dataset_info(folder);
  std::vector<std::string> files;
  for (const std::string& part : split(names, ',')) {
    const std::string name(trim(part));
    if (name.empty()) continue;
    const Json& entry = info.is_object() ? info.at(name) : info;
    if (entry.is_object() && entry.at("file_name").is_string()) {
      files.push_back((fs::path(folder) / entry.at("file_name").text()).string());
    } else if (entry.is_object() && entry.at("hf_hub_url").is_string()) {
      files.push_back(hub_file(import, entry.at("hf_hub_url").text(), entry));
    } else {
      files.push_back((fs::path(folder) / (name + ".json")).string());
      import.leave_out(formatted("no '{}' in {}/dataset_info.json, so data.files has {}", name,
                                 folder, files.back()),
                       formatted("[{}]", name));
    }
  }
  add_files(import, kFilesKey, files);
}

void import_validation_share(ConfigImport& import, const Json& value) {
  if (!is_true(value)) return import.skip();
  if (ConfigImport::has_key("validation.split")) {
    import.set("validation.split", value);
  } else {
    import.leave_out("sluice cuts no validation rows from the data; set validation.files");
  }
}

void import_train_on_inputs(ConfigImport& import, const Json& value) {
  if (import.trainer().is("axolotl")) return import.read_along();
  set_counted(import, is_true(value));
}

// Builders of torchtune's that load a data set of their own, or take `source` and `data_files`.
void import_tune_data(ConfigImport& import, const Json& value) {
  const std::string text = value.is_string() ? value.text() : "";
  const std::string component = text.substr(text.rfind('.') + 1);
  Json entry(
      {{"split", import.source("dataset.split")}, {"name", import.source("dataset.subset")}});
  const Json& source = import.source("dataset.source");
  const char* const own = component == "alpaca_cleaned_dataset" ? "yahma/alpaca-cleaned"
                          : component == "alpaca_dataset"       ? "tatsu-lab/alpaca"
                                                                : "";
  entry.add("path", source.is_string() ? source : Json(own));
  entry.add("data_files", import.source("dataset.data_files"));
  const std::vector<std::string> files = files_of(import, entry);
  if (files.empty()) return import.leave_out("set data.files to the rows of " + component);
  add_files(import, kFilesKey, files);
  const bool counts_prompts =
      component == "alpaca_dataset" || component == "text_completion_dataset";
  if (import.source("dataset.train_on_input").is_null())
    import.set_own(kAssistantOnly, Json(!counts_prompts), "as " + component + " does");
}

// LLaMA-Factory: only the last answer counts.
void import_history(ConfigImport& import, const Json& value) {
  if (!is_true(value)) return import.skip();
  if (!ConfigImport::has_key("data.train_on")) return import.leave_out("all answers count");
  import.set("data.train_on", Json("last"));
}

void import_group(ConfigImport& import, const Json& value) {
  if (!is_true(value)) return import.skip();
  import.set("data.pad", Json("longest"));
}

void import_padding(ConfigImport& import, const Json& value) {
  if (is_true(value)) return import.skip();
  import.set("data.pad", Json("longest"));
}

void import_chat_template(ConfigImport& import, const Json& value) {
  static const std::pair<const char*, const char*> kFormats[] = {
      {"chatml", "chatml"}, {"qwen", "chatml"},           {"qwen_25", "chatml"},
      {"llama3", "llama3"}, {"gemma", "gemma"},           {"mistral", "mistral"},
      {"default", "auto"},  {"tokenizer_default", "auto"}};
  const std::string word = value.is_string() ? to_lower(value.text()) : "";
  for (const auto& [theirs, ours] : kFormats)
    if (word == theirs) {
      import.set("data.chat_template", Json(ours));
      return;
    }
  import.leave_out("the model's own chat template is used (data.chat_template)");
}

void finish_data(ConfigImport& import) {
  if (!import.value_of(kFilesKey)) import.prepare("set data.files to your training rows");
  import.set_own("data.truncate", Json(true),
                 std::string(import.trainer().name) + " does not stop at longer rows");
  if (import.value_of("data.train_on")) import.unset(kAssistantOnly, "data.train_on decides");
  const Json* pack = import.value_of("data.pack");
  if (pack && is_true(*pack)) import.unset("data.pad", "packed rows are not padded");
}

}  // namespace sluice::detail
