// The files beside a tokenizer.json, tokenizer_config.json, special_tokens_map.json,
// added_tokens.json and config.json, as transformers reads them.
//
// Owns: reading them, the precedence of files, the table of all settings that transformers reads.
// Does not own: the tokens that they declare (declared_tokens.h).
//
// Invariant: a setting that may change ids in a way that is not followed here is refused by name.
// Thread-safety: const members may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/transformers_classes.h"

namespace sluice::data {

// The texts of the files of a directory; none for a missing file.
struct TokenizerTexts {
  std::string file;  // the path of the tokenizer.json, for errors; the others lie beside it
  std::string tokenizer;
  std::optional<std::string> tokenizer_config, special_tokens_map, added_tokens, config;
};
// file: the tokenizer.json. Throws Error(kInput): not there, longer than tokenizers are.
TokenizerTexts read_tokenizer_texts(const std::string& file);

class TokenizerSettings {
 public:
  // Throws Error(kInput) naming the file: malformed, a setting that is refused.
  explicit TokenizerSettings(const TokenizerTexts& texts);

  // The value in special_tokens_map.json where transformers reads it, else in
  // tokenizer_config.json; null where there is none.
  JsonField operator[](const std::string& key) const;
  bool has(const std::string& key) const { return settings_.contains(key); }
  // One of the files alone; null where there is none. The map is null where it is not read.
  const JsonField& config() const { return config_; }
  const JsonField& special_tokens_map() const { return map_; }
  const JsonField& added_tokens() const { return added_; }

  ChosenClass tokenizer_class(bool has_byte_level) const;
  // The place that names the class, for errors.
  std::string class_where() const;

 private:
  JsonField parse(const std::optional<std::string>& text, const std::string& name);
  void refuse_unfollowed() const;

  std::string folder_;
  struct File {
    std::string path;
    Json value;
  };
  std::vector<std::unique_ptr<const File>> files_;  // what fields point to
  JsonField config_, map_, added_, model_;
  std::map<std::string, JsonField> settings_;
};

}  // namespace sluice::data
