#include <map>

#include "base/json.h"
#include "base/text.h"
#include "config/key_table.h"
#include "config/peer_keys.h"
#include "config/run_config.h"

namespace sluice {
namespace {

using detail::Key;

std::string types_of(const Key& key) {
  std::vector<std::string> types;
  for (const detail::Kind kind : key.kinds) types.push_back(detail::to_text(kind));
  return join(types, " or ");
}

std::string allowed(const Key& key) {
  std::vector<std::string> parts;
  if (!key.words.empty()) {
    std::vector<std::string> words;
    for (const std::string& word : key.words) words.push_back("`\"" + word + "\"`");
    parts.push_back(join(words, ", "));
  }
  if (const std::string range = to_text(key.range); !range.empty()) parts.push_back(range);
  if (!key.may_be_empty) parts.push_back("not empty");
  if (!key.is_built) {
    parts.push_back("not built yet: other than `" + detail::to_toml(key.default_value()) + "`");
  }
  return join(parts, "; ");
}

// Omits a type that the default shows.
std::string values_of(const Key& key) {
  std::string words = allowed(key);
  const std::string types = types_of(key);
  if (types == "string" || types == "true or false") return words;
  return words.empty() ? types : types + "; " + words;
}

// A default value may differ from default_value() because the split convention sets it.
std::string origin_of(const Key& key, const RunConfig& config) {
  const std::string& origin = config.origins.at(key.full_name());
  if (origin != "default" || key.get(config) == key.default_value()) return origin;
  return "default of " + config.parallelism.pipeline.partition.convention.text();
}

// True if another key is set instead. A file that sets both is refused.
bool is_replaced(const Key& key, const RunConfig& config) {
  const std::string name = key.full_name();
  if (config.origins.at(name) != "default") return false;
  return (name == "training.steps" && config.training.epochs > 0) ||
         (name == "training.local_batch_size" && config.training.global_batch_size > 0) ||
         (name == "lr_scheduler.warmup_steps" && config.lr_scheduler.warmup_ratio > 0);
}

template <typename Shown>
std::string show_keys(const RunConfig& config, const Shown& is_shown) {
  TextTable table({{""}, {""}});
  for (const Key& key : detail::key_table()) {
    if (!is_shown(key)) continue;
    table.add_row({key.full_name() + " = " + detail::to_toml(key.get(config)),
                   "# " + origin_of(key, config)});
  }
  return table.to_string();
}

std::string peer_lists() {
  std::string text;
  const std::vector<detail::PeerKey>& peers = detail::peer_keys();
  for (auto peer = peers.begin(); peer != peers.end();) {
    const std::string library = peer->library;
    std::vector<std::string> answers;
    std::map<std::string, std::string> names;
    for (; peer != peers.end() && peer->library == library; ++peer) {
      std::string& row = names[peer->here];
      if (row.empty()) answers.push_back(peer->here);
      row += (row.empty() ? "`" : ", `") + std::string(peer->name) + "`";
    }
    text += "\n## " + library + "\n\n";
    for (const std::string& here : answers) text += "- " + names[here] + ": " + here + "\n";
  }
  return text;
}

}  // namespace

std::string show_config(const RunConfig& config) {
  return show_keys(config, [&](const Key& key) { return !is_replaced(key, config); });
}

std::string show_config_changes(const RunConfig& config) {
  return show_keys(config, [&](const Key& key) { return key.get(config) != key.default_value(); });
}

std::string show_config_json(const RunConfig& config) {
  Json object;
  for (const Key& key : detail::key_table()) {
    const std::string name = key.full_name();
    object[name] = {{"value", detail::to_json(key.get(config))},
                    {"origin", origin_of(key, config)}};
  }
  return object.dump(2) + "\n";
}

std::string config_reference() {
  std::string text;
  std::string section;
  for (const Key& key : detail::key_table()) {
    if (key.section != section) {
      section = key.section;
      text += std::string(text.empty() ? "" : "\n") + "## [" + section + "]\n\n";
    }
    const std::string values = values_of(key);
    text += "- `" + key.name + " = " + detail::to_toml(key.default_value()) + "`" +
            (values.empty() ? "" : " (" + values + ")") + ": " + key.meaning + "\n";
  }
  return text;
}

std::string peer_reference() { return "# Keys of other libraries\n" + peer_lists(); }

std::string config_reference_json() {
  Json list = Json::array();
  for (const Key& key : detail::key_table()) {
    Json entry;
    entry["key"] = key.full_name();
    entry["variable"] = key.variable();
    entry["type"] = types_of(key);
    entry["default"] = detail::to_json(key.default_value());
    if (!key.words.empty()) entry["words"] = key.words;
    if (const std::string range = to_text(key.range); !range.empty()) entry["range"] = range;
    if (!key.is_built)
      entry["built"] = std::vector<std::string>{detail::to_toml(key.default_value())};
    entry["meaning"] = key.meaning;
    list.push_back(std::move(entry));
  }
  return list.dump(2) + "\n";
}

std::vector<std::string> config_keys() {
  std::vector<std::string> names;
  for (const Key& key : detail::key_table()) names.push_back(key.full_name());
  return names;
}

}  // namespace sluice
