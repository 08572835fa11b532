// A value of tokenizer.json, or of a file beside it, that knows where it stands, for errors that
// name it.
//
// Owns: types, ranges and presence of fields. Does not own: their meaning.
// Thread-safety: const members may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "sluice/error.h"

namespace sluice::data {

// Ids of larger vocabularies are refused: no model has them, and tables are as long as the largest.
inline constexpr std::int64_t kMaxTokenId = (std::int64_t{1} << 22) - 1;
// Longer tokens are refused: texts grow by them.
inline constexpr std::size_t kMaxTokenBytes = 4096;
// Parts of one section, those of its sequences counted.
inline constexpr std::size_t kMaxParts = 64;

class JsonField {
 public:
  JsonField(const Json& value, const std::string& file, std::string path)
      : value_(&value), file_(&file), path_(std::move(path)) {}

  const Json& json() const { return *value_; }
  bool is_null() const { return value_->is_null(); }
  // "FILE: field 'model.vocab'".
  std::string where() const;

  // A field of an object; null where there is none.
  JsonField operator[](std::string_view key) const;
  // Items of an array.
  std::vector<JsonField> items() const;
  // Members of an object, by key.
  std::vector<std::pair<std::string, JsonField>> members() const;
  JsonField item(std::size_t index) const;

  // Error(kInput) unless it is what is asked for.
  std::string text() const;
  std::string text_or(std::string_view otherwise) const;
  // A text of at most kMaxTokenBytes, which is put into a text again and again.
  std::string short_text() const;
  bool flag() const;
  bool flag_or(bool otherwise) const;
  std::int64_t number(std::int64_t most) const;
  std::int32_t token_id() const { return static_cast<std::int32_t>(number(kMaxTokenId)); }
  // A string of one character.
  char32_t character() const;
  // The word of `type`.
  std::string type() const;

  // Refuses a feature that tokenizers or transformers has, or may have, and we have not.
  [[noreturn]] void refuse(const std::string& what, const std::string& remedy = {}) const {
    refuse_at(where(), what, remedy);
  }
  [[noreturn]] static void refuse_at(const std::string& where, const std::string& what,
                                     const std::string& remedy = {});
  [[noreturn]] void malformed(const std::string& expected) const;

 private:
  const Json* value_;
  const std::string* file_;
  std::string path_;
};

}  // namespace sluice::data
