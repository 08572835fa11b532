#include "data/tokenizer/declared_tokens.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

namespace sluice::data {
namespace {

struct Declared {
  AddedToken token;
  bool is_text = false;  // declared by a string, not an object
  bool says_normalized = false;
  // Whether equal texts in added_tokens.json become special. True for declarations by a string or
  // in special_tokens_map.json.
  bool makes_special = false;

  bool is_same(const Declared& other) const {
    return is_text == other.is_text && token.is_same(other.token);
  }
};
using DeclaredByKey = std::map<std::string, Declared>;

Declared of_text(std::string text, std::string where) {
  return {.token = {.content = std::move(text),
                    .normalized = false,
                    .special = true,
                    .where = std::move(where)},
          .is_text = true,
          .makes_special = true};
}

// `is_special` overrides the flag of the JSON object.
Declared of_object(const JsonField& field, bool is_special) {
  Declared declared;
  declared.token = {.content = field["content"].text(),
                    .single_word = field["single_word"].flag_or(false),
                    .strip_left = field["lstrip"].flag_or(false),
                    .strip_right = field["rstrip"].flag_or(false),
                    .special = is_special || field["special"].flag_or(false),
                    .where = field.where()};
  declared.says_normalized = !field["normalized"].is_null();
  declared.token.normalized = field["normalized"].flag_or(!declared.token.special);
  return declared;
}

// Objects in special_tokens_map.json (`is_of_map`) are always special.
Declared of_field(const JsonField& field, bool is_of_map) {
  if (!field.json().is_object()) return of_text(field.text(), field.where());
  Declared declared = of_object(field, is_of_map);
  declared.makes_special = is_of_map;
  return declared;
}

std::vector<Declared> of_list(const JsonField& field, bool is_of_map) {
  std::vector<Declared> list;
  if (field.is_null()) return list;
  for (const JsonField& item : field.items()) list.push_back(of_field(item, is_of_map));
  return list;
}

bool is_standard(const std::string& key) {
  return std::find(kNamedTokens.begin(), kNamedTokens.end(), key) != kNamedTokens.end();
}

// Model-specific keys, such as "image_token".
bool is_own_name(const std::string& key) { return key.ends_with("_token") && !is_standard(key); }

bool contains(const std::vector<Declared>& list, const Declared& declared) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Declared& other) { return other.is_same(declared); });
}

// Token declarations that transformers collects before it creates a tokenizer.
class Collection {
 public:
  Collection(const TokenizerSettings& settings, const RebuiltClass* rebuilt)
      : settings_(settings), rebuilt_(rebuilt) {
    if (!settings.config().is_null()) read_config(settings.config());
    if (!settings.special_tokens_map().is_null()) read_map(settings.special_tokens_map());
  }

  void read_indexed(const std::vector<JsonField>& file_items);
  void read_standard();
  std::vector<AddedToken> added_to(const std::vector<AddedToken>& existing,
                                   const Json& vocabulary) const;
  // Returns each special token once, without flags.
  std::vector<AddedToken> special() const;
  std::string text_of(const std::string& key) const {
    const auto it = standard_.find(key);
    return it == standard_.end() ? std::string() : it->second.token.content;
  }

 private:
  void refuse_unordered(const std::set<std::string>& known, const Json& vocabulary) const;
  void read_older_file(const std::vector<JsonField>& file_items);
  void read_config(const JsonField& config);
  void read_map(const JsonField& map);
  void set_indexed(std::int64_t index, Declared declared) {
    by_text_.insert_or_assign(declared.token.content, declared);
    indexed_.insert_or_assign(index, std::move(declared));
  }
  void set_all_own(const JsonField& object) {
    for (const auto& [key, field] : object.members())
      own_.insert_or_assign(key, of_field(field, false));
  }
  template <typename Visit>
  void for_each_named(const Visit& visit) const {
    for (const std::string_view key : kNamedTokens) {
      const auto it = standard_.find(std::string(key));
      if (it != standard_.end()) visit(it->second);
    }
    for (const auto& [key, declared] : own_) visit(declared);
  }

  const TokenizerSettings& settings_;
  const RebuiltClass* rebuilt_;
  std::optional<std::vector<Declared>> extra_;  // unset if no file has such tokens
  DeclaredByKey standard_, own_;
  std::map<std::int64_t, Declared> indexed_;
  DeclaredByKey by_text_;
};

void Collection::read_config(const JsonField& config) {
  const bool has_extra = config.json().contains("extra_special_tokens");
  const JsonField listed = config["extra_special_tokens"];
  const JsonField older = config["additional_special_tokens"];
  const bool is_older =
      listed.json().empty() && config.json().contains("additional_special_tokens");
  for (const auto& [key, field] : config.members()) {
    if (is_own_name(key) && field.json().is_string()) own_.emplace(key, of_field(field, false));
  }
  const JsonField& chosen = is_older ? older : listed;
  if (chosen.json().is_object()) {
    set_all_own(chosen);
  } else if (is_older || has_extra) {
    extra_ = of_list(chosen, false);
  }
  if (own_.empty() && !config["model_specific_special_tokens"].is_null())
    set_all_own(config["model_specific_special_tokens"]);
  const JsonField& map = settings_.special_tokens_map();
  for (const auto& [key, field] : config.members()) {
    const bool is_typed = field.json().is_object() && field.json().contains("__type");
    const bool is_replaced = !map.is_null() && map.json().contains(key);
    if (is_own_name(key) && is_typed && !is_replaced) own_.emplace(key, of_field(field, false));
  }
}

void Collection::read_map(const JsonField& map) {
  for (const auto& [key, field] : map.members()) {
    if (is_own_name(key) && (field.json().is_string() || field.json().is_object()))
      own_.emplace(key, of_field(field, true));
  }
  const JsonField listed = map["extra_special_tokens"];
  if (listed.json().is_object()) {
    set_all_own(listed);
    extra_.reset();
  } else if (!listed.is_null()) {
    std::vector<Declared> all = extra_.value_or(std::vector<Declared>());
    for (Declared& declared : of_list(listed, true)) {
      if (!contains(all, declared)) all.push_back(std::move(declared));
    }
    extra_ = std::move(all);
  }
}

void Collection::read_standard() {
  for (const std::string_view name : kNamedTokens) {
    const std::string key(name);
    if (!settings_.has(key)) continue;
    const JsonField field = settings_[key];
    const JsonField& map = settings_.special_tokens_map();
    const bool is_of_map = !map.is_null() && map.json().contains(key);
    if (!field.is_null()) standard_.emplace(key, of_field(field, is_of_map));
  }
}

void Collection::read_indexed(const std::vector<JsonField>& file_items) {
  if (settings_.has("added_tokens_decoder")) {
    for (const auto& [key, field] : settings_["added_tokens_decoder"].members()) {
      std::int64_t index = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error != std::errc() || end != key.data() + key.size() || index < 0 ||
          index > kMaxTokenId)
        field.malformed("an id as the key");
      set_indexed(index, of_object(field, false));
    }
  } else {
    read_older_file(file_items);
    for (const JsonField& item : file_items)
      set_indexed(item["id"].token_id(),
                  {.token = read_added_token(item), .says_normalized = true});
  }
  for (auto& [key, declared] : standard_) {
    const auto it = by_text_.find(declared.token.content);
    if (it != by_text_.end()) declared = it->second;
  }
  // transformers reads the older key "additional_special_tokens" last.
  const JsonField& map = settings_.special_tokens_map();
  if (!extra_ && !map.is_null()) extra_ = of_list(map["additional_special_tokens"], false);
  if (rebuilt_) {
    for (const auto& [key, text] : rebuilt_->tokens) {
      if (!settings_.has(std::string(key)))
        standard_.emplace(key, of_text(std::string(text), std::string(rebuilt_->name)));
    }
  }
}

// Reads added_tokens.json, which maps texts to ids.
void Collection::read_older_file(const std::vector<JsonField>& file_items) {
  if (settings_.added_tokens().is_null()) return;
  std::set<std::string> special;
  const auto add = [&](const Declared& declared) {
    if (declared.makes_special) special.insert(declared.token.content);
  };
  for (const auto& [key, declared] : standard_) add(declared);
  for (const Declared& declared : extra_.value_or(std::vector<Declared>())) add(declared);
  std::map<std::string, std::int32_t> ids;
  for (const JsonField& item : file_items)
    ids.insert_or_assign(item["content"].text(), item["id"].token_id());
  for (const auto& [text, field] : settings_.added_tokens().members()) {
    const std::int32_t id = field.token_id();
    const auto it = ids.find(text);
    if (indexed_.contains(id) || (it != ids.end() && it->second != id)) {
      field.refuse(it != ids.end() ? "a token with another id than in tokenizer.json"
                                   : "a token with the id of another token",
                   "remove the file where tokenizer.json has its tokens");
    }
    const bool is_special = special.contains(text);
    set_indexed(id, {.token = {.content = text,
                               .normalized = !is_special,
                               .special = is_special,
                               .where = field.where()},
                     .says_normalized = true});
  }
}

std::vector<AddedToken> Collection::added_to(const std::vector<AddedToken>& existing,
                                             const Json& vocabulary) const {
  std::map<std::string, const AddedToken*> there;
  for (const AddedToken& token : existing) there[token.content] = &token;
  std::set<std::string> texts;
  for (const auto& [text, token] : there) texts.insert(text);
  std::vector<Declared> added;
  for (const auto& [index, declared] : indexed_) {
    const auto it = there.find(declared.token.content);
    if (it == there.end() || !it->second->is_same(declared.token)) added.push_back(declared);
  }
  for (const Declared& declared : added) texts.insert(declared.token.content);
  const auto add = [&](const Declared& declared) {
    if (texts.contains(declared.token.content) || contains(added, declared)) return;
    added.push_back(declared);
  };
  for_each_named(add);
  refuse_unordered(texts, vocabulary);
  for (const Declared& declared : extra_.value_or(std::vector<Declared>())) add(declared);

  std::set<std::string> named;
  for_each_named([&](const Declared& declared) { named.insert(declared.token.content); });
  std::vector<AddedToken> tokens;
  for (Declared& declared : added) {
    if (!declared.token.special && named.contains(declared.token.content)) {
      declared.token.special = true;
      if (!declared.says_normalized) declared.token.normalized = false;
    }
    tokens.push_back(std::move(declared.token));
  }
  return tokens;
}

// Rejects new tokens whose ids depend on the order of JSON keys, which our parser does not
// preserve.
void Collection::refuse_unordered(const std::set<std::string>& known,
                                  const Json& vocabulary) const {
  std::string first;
  for (const auto& [key, declared] : own_) {
    const std::string& text = declared.token.content;
    if (known.contains(text) || vocabulary.contains(text) || text == first) continue;
    if (!first.empty()) {
      JsonField::refuse_at(declared.token.where,
                           "a new token '" + text + "', beside '" + first +
                               "', whose id depends on the order of keys in the file,",
                           "list both in extra_special_tokens");
    }
    first = text;
  }
}

std::vector<AddedToken> Collection::special() const {
  std::vector<AddedToken> all;
  std::set<std::string> seen;
  const auto add = [&](const Declared& declared) {
    if (seen.insert(declared.token.content).second)
      all.push_back(of_text(declared.token.content, declared.token.where).token);
  };
  for_each_named(add);
  for (const Declared& declared : extra_.value_or(std::vector<Declared>())) add(declared);
  return all;
}

}  // namespace

std::vector<AddedToken> tokens_of_file(const JsonField& file_tokens) {
  std::vector<AddedToken> tokens;
  if (file_tokens.is_null()) return tokens;
  for (const JsonField& item : file_tokens.items()) tokens.push_back(read_added_token(item));
  return tokens;
}

DeclaredTokens declared_tokens(const JsonField& file_tokens, const Json& vocabulary,
                               const TokenizerSettings& settings, const RebuiltClass* rebuilt) {
  Collection collection(settings, rebuilt);
  collection.read_standard();
  collection.read_indexed(file_tokens.is_null() ? std::vector<JsonField>() : file_tokens.items());
  std::vector<AddedToken> first;
  if (!rebuilt) first = tokens_of_file(file_tokens);
  std::vector<AddedToken> further = collection.added_to(first, vocabulary);

  DeclaredTokens declared;
  declared.begin = collection.text_of("bos_token");
  declared.end = collection.text_of("eos_token");
  declared.unknown = collection.text_of("unk_token");
  declared.added.split_special = settings["split_special_tokens"].flag_or(false);
  if (!first.empty()) declared.added.batches.push_back(std::move(first));
  if (!further.empty()) declared.added.batches.push_back(std::move(further));
  if (rebuilt && rebuilt->resets_special) declared.added.batches.push_back(collection.special());
  return declared;
}

}  // namespace sluice::data
