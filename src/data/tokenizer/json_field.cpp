#include "data/tokenizer/json_field.h"

#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

const nlohmann::json kNull;

}  // namespace

std::string JsonField::where() const {
  return path_.empty() ? *file_ : *file_ + ": field '" + path_ + "'";
}

JsonField JsonField::operator[](std::string_view key) const {
  if (!value_->is_object()) malformed("an object");
  const auto it = value_->find(key);
  const std::string path = path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  return {it == value_->end() ? kNull : *it, *file_, path};
}

std::vector<JsonField> JsonField::items() const {
  if (!value_->is_array()) malformed("an array");
  std::vector<JsonField> items;
  for (std::size_t i = 0; i < value_->size(); ++i) items.push_back(item(i));
  return items;
}

JsonField JsonField::item(std::size_t index) const {
  return {(*value_)[index], *file_, path_ + "[" + std::to_string(index) + "]"};
}

std::string JsonField::text() const {
  if (!value_->is_string()) malformed("a string");
  return value_->get<std::string>();
}

std::string JsonField::text_or(std::string_view otherwise) const {
  return is_null() ? std::string(otherwise) : text();
}

std::string JsonField::short_text() const {
  std::string found = text();
  if (found.size() > kMaxTokenBytes)
    refuse("a text of " + std::to_string(found.size()) + " bytes here");
  return found;
}

bool JsonField::flag() const {
  if (!value_->is_boolean()) malformed("true or false");
  return value_->get<bool>();
}

bool JsonField::flag_or(bool otherwise) const { return is_null() ? otherwise : flag(); }

std::int64_t JsonField::number(std::int64_t most) const {
  const std::string expected = "a whole number from 0 to " + std::to_string(most);
  if (!value_->is_number_unsigned()) malformed(expected);
  const std::uint64_t number = value_->get<std::uint64_t>();
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

void JsonField::refuse(const std::string& what) const {
  throw Error(ErrorKind::kInput, {.what = what + " is not supported",
                                  .where = where(),
                                  .remedy = "docs/tokenizer.md lists what is read"});
}

void JsonField::malformed(const std::string& expected) const {
  std::string found = value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (value_->is_structured()) found = value_->is_array() ? "an array" : "an object";
  throw Error(ErrorKind::kInput, {.what = "expected " + expected + ", found " + found,
                                  .where = where(),
                                  .remedy = "mend it there"});
}

}  // namespace sluice::data
