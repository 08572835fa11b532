// Reads the files beside a tokenizer.json with transformers' precedence. Rejects settings that may
// change ids in an unsupported way.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/transformers_classes.h"

namespace sluice::data {

struct TokenizerTexts {
  std::string file;  // path of the tokenizer.json
  std::string tokenizer;
  std::optional<std::string> tokenizer_config, special_tokens_map, added_tokens, config;
};
// Throws Error(kInput) if the tokenizer.json is missing or too long.
TokenizerTexts read_tokenizer_texts(const std::string& file);

class TokenizerSettings {
 public:
  // Throws Error(kInput) for a malformed file or a rejected setting.
  explicit TokenizerSettings(const TokenizerTexts& texts);

  // special_tokens_map.json overrides tokenizer_config.json if transformers reads it. Returns null
  // for a missing key.
  JsonField operator[](const std::string& key) const;
  bool has(const std::string& key) const { return settings_.contains(key); }
  // Single files. Null if transformers would not read the file.
  const JsonField& config() const { return config_; }
  const JsonField& special_tokens_map() const { return map_; }
  const JsonField& added_tokens() const { return added_; }

  ChosenClass tokenizer_class(bool has_byte_level) const;
  std::string class_where() const;

 private:
  JsonField parse(const std::optional<std::string>& text, const std::string& name);
  void refuse_unsupported_settings() const;

  std::string folder_;
  struct File {
    std::string path;
    Json value;
  };
  std::vector<std::unique_ptr<const File>> files_;  // fields point into these
  JsonField config_, map_, added_, model_;
  std::map<std::string, JsonField> settings_;
};

}  // namespace sluice::data
