// A value in a JSON file, with the file name and the path of keys to it, which error messages name.
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

// Bounds memory, because tables are as long as the largest id.
inline constexpr std::int64_t kMaxTokenId = (std::int64_t{1} << 22) - 1;
inline constexpr std::size_t kMaxTokenBytes = 4096;
// Limit per normalizer, pre-tokenizer or decoder, with nested sequences.
inline constexpr std::size_t kMaxParts = 64;

class JsonField {
 public:
  JsonField(const Json& value, const std::string& file, std::string path)
      : value_(&value), file_(&file), path_(std::move(path)) {}

  const Json& json() const { return *value_; }
  bool is_null() const { return value_->is_null(); }
  // Returns "FILE: field 'model.vocab'".
  std::string where() const;

  JsonField operator[](std::string_view key) const;
  std::vector<JsonField> items() const;
  std::vector<std::pair<std::string, JsonField>> members() const;
  JsonField item(std::size_t index) const;

  // The functions below throw Error(kInput) for another type.
  std::string text() const;
  std::string text_or(std::string_view otherwise) const;
  // Rejects more than kMaxTokenBytes, because the text may be inserted repeatedly.
  std::string short_text() const;
  bool flag() const;
  bool flag_or(bool otherwise) const;
  std::int64_t number(std::int64_t most) const;
  std::int32_t token_id() const { return static_cast<std::int32_t>(number(kMaxTokenId)); }
  char32_t character() const;
  std::string type() const;

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
