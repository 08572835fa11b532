#include "config/import/config_import.h"

#include <algorithm>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "config/import/argument_words.h"
#include "config/import/conversions.h"
#include "config/import/references.h"
#include "config/import/yaml_reader.h"
#include "config/key_table.h"
#include "config/set_value.h"
#include "config/toml_reader.h"
#include "sluice/error.h"

namespace sluice {
namespace detail {
namespace {

namespace fs = std::filesystem;

void leave_launcher(ConfigImport& import, const Json&) {
  import.leave_out("sluice launch -n starts the processes");
}

// Keys that other trainers call by the name of a key of ours, which peer_keys() cannot hold.
struct SameName {
  const char* name;
  const char* key;  // "": `convert` decides
  Conversion convert = nullptr;
};
constexpr SameName kSameNames[] = {
    {"adapter", "", import_lora},
    {"arguments", "", leave_launcher},
    {"assistant_only_loss", "data.assistant_only_loss"},
    {"chat_template", "", import_chat_template},
    {"device", "", import_device},
    {"dtype", "", import_type},
    {"epochs", "", import_epochs},
    {"launcher", "", leave_launcher},
    {"log_level", "metrics.log_level"},
    {"momentum", "optimizer.momentum"},
    {"modules_to_save", "", import_modules_to_save},
    {"seed", "training.seed"},
    {"shuffle", "data.shuffle"},
    {"warmup_ratio", "", import_warmup_ratio},
    {"warmup_steps", "", import_warmup_steps},
    {"weight_decay", "optimizer.weight_decay"},
};

const Key* key_named(const std::string& full_name) {
  const auto& table = key_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Key& key) { return key.full_name() == full_name; });
  return found == table.end() || !found->is_built ? nullptr : &*found;
}

RawValue raw_of(const Json& json) {
  RawValue raw;
  using Type = RawValue::Type;
  if (json.is_boolean()) {
    raw.type = Type::kBool;
    raw.boolean = json.boolean();
  } else if (json.is_number_integer() &&
             !(json.is_number_unsigned() && json.unsigned_integer() > INT64_MAX)) {
    raw.type = Type::kInteger;
    raw.integer = json.integer();
  } else if (json.is_number()) {
    raw.type = Type::kNumber;
    raw.number = json.number();
  } else if (json.is_string()) {
    raw.type = Type::kString;
    raw.string = json.text();
  } else if (json.is_array()) {
    raw.type = Type::kList;
    for (const Json& element : json.list()) raw.list.push_back(raw_of(element));
  } else if (json.is_object()) {
    raw.type = Type::kTable;
    for (const Json::Member& member : json.members()) {
      raw.keys.push_back(member.key);
      raw.list.push_back(raw_of(member.value));
    }
  } else {
    raw.other = "nothing";
  }
  return raw;
}

// Adapts the value's form to the key: text of a number, a whole number with a point, one element of
// a list.
Json fitted(const Json& value, const Key& key) {
  const auto takes = [&](Kind kind) {
    return std::find(key.kinds.begin(), key.kinds.end(), kind) != key.kinds.end();
  };
  if (value.is_string() &&
      std::find(key.words.begin(), key.words.end(), to_lower(value.text())) != key.words.end())
    return Json(to_lower(value.text()));
  if (value.is_string() && !takes(Kind::kString)) {
    if (const Json scalar = yaml_scalar(value.text()); !scalar.is_string() && !scalar.is_null())
      return fitted(scalar, key);
    if (takes(Kind::kStrings)) return Json(Json::List{value});
  }
  if (value.is_number() && !value.is_number_integer() && !takes(Kind::kNumber) &&
      takes(Kind::kInteger)) {
    const double number = value.number();
    if (number >= -1e15 && number <= 1e15 &&
        number == static_cast<double>(static_cast<std::int64_t>(number)))
      return Json(static_cast<std::int64_t>(number));
  }
  return value;
}

// The only key that a row names, or "".
std::string only_key(const std::string& here) {
  const bool is_only = here.size() > 2 && here.front() == '`' && here.back() == '`' &&
                       std::count(here.begin(), here.end(), '`') == 2;
  return is_only ? here.substr(1, here.size() - 2) : "";
}

std::string reason_of(std::string here) {
  if (here == "nothing, on purpose") return "sluice has nothing like it, on purpose";
  std::erase(here, '`');
  if (here.starts_with("nothing (")) return here.substr(9, here.size() - 10);
  return here == "not built yet" ? here : "see " + here;
}

std::string shown(const Json& value) {
  std::string text = value.shown();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// Text for a comment or a line on stderr: printable and on one line.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  return text;
}

std::string path_text(const fs::path& path) { return path.lexically_normal().string(); }

}  // namespace

bool is_true(const Json& value) {
  if (value.is_boolean()) return value.boolean();
  if (value.is_number()) return value.number() != 0;
  if (!value.is_string()) return !value.empty();
  const std::string word = to_lower(value.text());
  return !word.empty() && word != "false" && word != "no" && word != "none" && word != "off" &&
         word != "disabled";
}

ConfigImport::ConfigImport(const Json& settings, const Trainer& trainer,
                           std::map<std::string, int> lines, fs::path folder)
    : settings_(settings),
      trainer_(&trainer),
      lines_(std::move(lines)),
      folder_(std::move(folder)) {
  for (const TrainerDefault& each : trainer.defaults)
    if (source(each.name).is_null()) defaults_.emplace(each.name, each.value);
}

const Json& ConfigImport::source(const std::string& name) const {
  const Json* value = &settings_;
  for (const std::string& part : split(name, '.')) value = &value->at(part);
  if (!value->is_null()) return *value;
  const auto found = defaults_.find(name);
  return found == defaults_.end() ? *value : found->second;
}

std::string ConfigImport::text_of(const std::string& name) const {
  const Json& value = source(name);
  return value.is_string() ? value.text() : "";
}

bool ConfigImport::is_on(const std::string& name) const { return is_true(source(name)); }

bool ConfigImport::has_key(const std::string& key) {
  const Key* found = key_named(key);
  return found && found->is_built;
}

bool ConfigImport::takes_text(const std::string& key) {
  const Key* found = key_named(key);
  return found &&
         std::find(found->kinds.begin(), found->kinds.end(), Kind::kString) != found->kinds.end();
}

bool ConfigImport::set(const std::string& key, const Json& given) {
  const Key* row = key_named(key);
  if (!row || !row->is_built) {
    leave_out("sluice has no " + key);
    return false;
  }
  const Json value = fitted(given, *row);
  const RawValue raw = raw_of(value);
  Value typed;
  const RawValue* misfit = nullptr;
  try {
    set_value(scratch_, *row, raw, Source{"", "", key});
    if (!convert(raw, row->kinds, typed, misfit)) return false;
  } catch (const Error& error) {
    leave_out(error.fact());
    return false;
  }
  const std::string from = own_.empty() ? name_ : own_;
  const auto found = entries_.find(key);
  const bool joins = found != entries_.end() && found->second.from != from && own_.empty() &&
                     !found->second.is_own;
  entries_[key] = {value, to_toml(typed), joins ? found->second.from + ", " + from : from,
                   !own_.empty()};
  return true;
}

void ConfigImport::set_own(const std::string& key, const Json& value, const std::string& from) {
  own_ = from;
  set(key, value);
  own_.clear();
}

const Json* ConfigImport::value_of(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second.value;
}

void ConfigImport::unset(const std::string& key, const std::string& reason) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  if (!found->second.is_own) {
    name_ = found->second.from;
    value_ = found->second.value;
    leave_out(reason);
  }
  entries_.erase(found);
}

void ConfigImport::leave_out(const std::string& reason, const std::string& part) {
  if (!own_.empty()) return;
  const auto line = lines_.find(name_);
  left_.push_back({name_ + part, part.empty() ? shown(value_) : "", reason,
                   line == lines_.end() ? 0 : line->second});
}

void ConfigImport::leave_out() { leave_out(row_ ? reason_of(row_->here) : "no such key"); }

void ConfigImport::skip() {
  if (own_.empty()) skipped_.push_back(name_);
}

void ConfigImport::read_along() {
  if (own_.empty()) read_.push_back(name_);
}

void ConfigImport::prepare(const std::string& command) {
  if (std::find(commands_.begin(), commands_.end(), command) == commands_.end())
    commands_.push_back(command);
}

std::string ConfigImport::relocated(const std::string& path) const {
  if (folder_.empty() || path.empty() || path.starts_with('~') || path.starts_with('$') ||
      fs::path(path).is_absolute())
    return path;
  std::error_code failed;
  const fs::path from = fs::weakly_canonical(fs::absolute(folder_), failed);
  const fs::path to = failed ? fs::path() : fs::weakly_canonical(fs::current_path(), failed);
  if (failed) return path_text(fs::absolute(path));
  return path_text((to / path).lexically_relative(from));
}

const PeerKey* ConfigImport::row_of(const std::string& name) const {
  const std::string written = replace_all(name, "-", "_");
  for (const std::string& library : trainer_->libraries) {
    for (const PeerKey& row : peer_keys())
      if (names_key(row, written) && row.library == library) return &row;
  }
  return value_.is_object() ? nullptr : find_peer_key(name);  // the other trainers' keys
}

bool ConfigImport::translate_one(const std::string& name, const Json& value) {
  name_ = name;
  value_ = value;
  const auto same = std::find_if(std::begin(kSameNames), std::end(kSameNames),
                                 [&](const SameName& each) { return name == each.name; });
  row_ = same == std::end(kSameNames) ? row_of(name) : nullptr;
  std::string key = row_ ? only_key(row_->here) : key_named(name) ? name : "";
  if (key.find(' ') != std::string::npos) key.clear();  // a command
  Conversion convert = row_ ? row_->convert : nullptr;
  if (same != std::end(kSameNames)) {
    convert = same->convert;
    key = same->key;
  }
  if (convert) {
    convert(*this, value);
  } else if (!key.empty()) {
    set(key, value);
  } else if (row_) {
    leave_out();
  } else {
    return false;
  }
  return true;
}

void ConfigImport::translate(const std::string& name, const Json& value) {
  name_ = name;
  value_ = value;
  if (value.is_null()) return skip();
  if (translate_one(name, value)) return;
  if (value.is_object()) {
    for (const Json::Member& member : value.members())
      translate(name + "." + member.key, member.value);
    return;
  }
  std::vector<std::string> names;
  for (const PeerKey& row : peer_keys()) names.push_back(row.name);
  const std::string near = nearest_name(name, names);
  leave_out("sluice does not know this key of " + std::string(trainer_->name) +
            (near.empty() ? "" : "; is '" + near + "' meant?"));
}

void ConfigImport::run() {
  own_ = std::string(trainer_->name) + "'s default";
  for (const auto& [name, value] : defaults_) translate_one(name, value);
  own_.clear();
  for (const Json::Member& member : settings_.members()) translate(member.key, member.value);
  finish_model(*this);
  finish_data(*this);
  finish_run(*this);
}

std::string ConfigImport::left_text(const Left& left) const {
  const std::string value = left.value.empty() ? "" : " = " + left.value;
  return (left.line > 0 ? formatted("line {}: ", left.line) : "") + left.name + value + ": " +
         left.reason;
}

std::vector<std::string> ConfigImport::notes() const {
  std::vector<std::string> lines;
  for (const Left& left : left_) lines.push_back(one_line("left out: " + left_text(left)));
  if (!skipped_.empty())
    lines.push_back(one_line("without effect, being empty or off: " + join(skipped_, ", ")));
  if (!read_.empty()) lines.push_back(one_line("used with other keys: " + join(read_, ", ")));
  for (const std::string& command : commands_) lines.push_back(one_line("run first: " + command));
  return lines;
}

std::string ConfigImport::toml(const std::string& file) const {
  std::string text = one_line(formatted("# Written by `sluice config import` from {}'s {}.",
                                        trainer_->name, fs::path(file).filename().string())) +
                     "\n";
  std::string section;
  for (const Key& key : key_table()) {
    const auto found = entries_.find(key.full_name());
    if (found == entries_.end()) continue;
    if (key.section != section) text += "\n[" + (section = key.section) + "]\n";
    text += one_line(key.name + " = " + found->second.text + "  # " + found->second.from) + "\n";
  }
  text += "\n";
  for (const std::string& note : notes()) text += "# " + note + "\n";
  return text;
}

}  // namespace detail
}  // namespace sluice
