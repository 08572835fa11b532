#include "data/tokenizer/json_field.h"

#include "base/format.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {
std::string JsonField::where() const {
  return path_.empty() ? *file_ : *file_ + ": field '" + path_ + "'";
}

JsonField JsonField::operator[](std::string_view key) const {
  if (!value_->is_object()) malformed("an object");
  const std::string path = path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  return {value_->at(key), *file_, path};
}

std::vector<JsonField> JsonField::items() const {
  if (!value_->is_array()) malformed("an array");
  std::vector<JsonField> items;
  for (std::size_t i = 0; i < value_->size(); ++i) items.push_back(item(i));
  return items;
}

std::vector<std::pair<std::string, JsonField>> JsonField::members() const {
  if (!value_->is_object()) malformed("an object");
  std::vector<std::pair<std::string, JsonField>> members;
  for (const auto& [key, value] : value_->members()) members.emplace_back(key, (*this)[key]);
  return members;
}

JsonField JsonField::item(std::size_t index) const {
  return {value_->list()[index], *file_, formatted("{}[{}]", path_, index)};
}

std::string JsonField::text() const {
  if (!value_->is_string()) malformed("a string");
  return value_->text();
}

std::string JsonField::text_or(std::string_view otherwise) const {
  return is_null() ? std::string(otherwise) : text();
}

std::string JsonField::short_text() const {
  std::string found = text();
  if (found.size() > kMaxTokenBytes) refuse(formatted("a text of {} bytes here", found.size()));
  return found;
}

bool JsonField::flag() const {
  if (!value_->is_boolean()) malformed("true or false");
  return value_->boolean();
}

bool JsonField::flag_or(bool otherwise) const { return is_null() ? otherwise : flag(); }

std::int64_t JsonField::number(std::int64_t most) const {
  const std::string expected = "a whole number from 0 to " + std::to_string(most);
  if (!value_->is_number_unsigned()) malformed(expected);
  const std::uint64_t number = value_->unsigned_integer();
  if (number > static_cast<std::uint64_t>(most)) malformed(expected);
  return static_cast<std::int64_t>(number);
}

char32_t JsonField::character() const {
  const std::string one = text();
  std::size_t at = 0;
  const char32_t c = one.empty() ? 0 : next_codepoint(one, at);
  if (at == 0 || at != one.size()) malformed("a string of one character");
  return c;
}

std::string JsonField::type() const {
  const JsonField type = (*this)["type"];
  if (!type.value_->is_string()) type.malformed("the name of a part");
  return type.text();
}

void JsonField::refuse_at(const std::string& where, const std::string& what,
                          const std::string& remedy) {
  throw Error(ErrorKind::kInput,
              {.what = what + " is not supported",
               .where = where,
               .remedy = remedy.empty() ? "docs/tokenizer.md lists what is read" : remedy});
}

void JsonField::malformed(const std::string& expected) const {
  const std::string found = value_->is_array()    ? "an array"
                            : value_->is_object() ? "an object"
                                                  : value_->dump();
  throw Error(ErrorKind::kInput, {.what = "expected " + expected + ", found " + found,
                                  .where = where(),
                                  .remedy = "mend it there"});
}

}  // namespace sluice::data
