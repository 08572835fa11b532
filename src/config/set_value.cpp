#include "config/set_value.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "config/paths.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

std::string example(const Key& key) {
  Value value = key.default_value();
  if (key.name == "files") value = std::vector<std::string>{"corpus/*.txt"};
  if (key.name == "fields") value = std::map<std::string, std::string>{{"prompt", "question"}};
  return "for example " + key.full_name() + " = " + to_toml(value);
}

// TOML rejects integers beyond 64 bits, so they are read as strings.
bool is_huge_integer(const RawValue& raw) {
  std::string_view digits = raw.string;
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  return raw.type == RawValue::Type::kString && digits.size() >= 19 &&
         digits.find_first_not_of("0123456789_") == std::string_view::npos;
}

std::string range_remedy(const Key& key) {
  const std::string range = to_text(key.range);
  return range.empty() ? "write a finite number" : "write a number " + range;
}

Error wrong_type(const Key& key, const RawValue& raw, const RawValue& misfit,
                 const Source& source) {
  std::vector<std::string> types;
  for (const Kind kind : key.kinds) {
    const std::string type = to_text(kind);
    types.push_back((kind == Kind::kBool ? "" : type.starts_with('i') ? "an " : "a ") + type);
  }
  const bool wants_number =
      key.kinds.front() == Kind::kInteger || key.kinds.front() == Kind::kNumber;
  if (wants_number && is_huge_integer(misfit)) {
    return Error(ErrorKind::kUsage, {.what = key.full_name() + ": " + misfit.string +
                                             " is out of range of a 64-bit integer",
                                     .where = source.at(misfit.position),
                                     .remedy = range_remedy(key)});
  }
  std::string remedy = example(key);
  const bool wants_string =
      key.kinds.front() == Kind::kString || key.kinds.front() == Kind::kStrings;
  const bool wants_integer = key.kinds.front() == Kind::kInteger;
  const bool is_element = &raw != &misfit;
  if (wants_string && is_element == (key.kinds.front() == Kind::kStrings) &&
      misfit.type == RawValue::Type::kInteger) {
    remedy = formatted("write \"{}\" with quotes", misfit.integer);
  } else if (wants_integer && misfit.type == RawValue::Type::kNumber &&
             std::abs(misfit.number) < 1e15 && misfit.number == std::floor(misfit.number)) {
    remedy = "write " + std::to_string(static_cast<std::int64_t>(misfit.number));
  }
  std::string found = describe(misfit);
  if (is_element) found += raw.type == RawValue::Type::kTable ? " in the table" : " in the list";
  return Error(ErrorKind::kUsage,
               {.what = key.full_name() + ": expected " + join(types, " or ") + ", found " + found,
                .where = source.at(misfit.position),
                .remedy = remedy});
}

void check_number(const Key& key, double number, const RawValue& raw, const Source& source) {
  if (contains(key.range, number)) return;
  throw Error(ErrorKind::kUsage,
              {.what = key.full_name() + ": " + describe(raw) + " is out of range",
               .where = source.at(raw.position),
               .remedy = range_remedy(key)});
}

void check_string(const Key& key, const std::string& text, const RawValue& raw,
                  const Source& source) {
  const std::vector<std::string>& words = key.words;
  if (!words.empty() && std::find(words.begin(), words.end(), text) == words.end()) {
    std::vector<std::string> named;
    for (const std::string& word : words) named.push_back(word.empty() ? "\"\"" : word);
    std::string remedy = suggest_name(text, named);
    const bool is_beside_list = key.kinds.front() == Kind::kString &&
                                std::count(key.kinds.begin(), key.kinds.end(), Kind::kStrings) > 0;
    if (is_beside_list && remedy.starts_with("one of"))
      remedy += ", or a list: " + to_toml(std::vector<std::string>{text});
    throw Error(ErrorKind::kUsage, {.what = "'" + text + "' is not a value of " + key.full_name(),
                                    .where = source.at(raw.position),
                                    .remedy = remedy});
  }
  if (text.empty() && !key.may_be_empty) {
    throw Error(ErrorKind::kUsage, {.what = key.full_name() + " is an empty string",
                                    .where = source.at(raw.position),
                                    .remedy = example(key)});
  }
  if (text.find('\0') != std::string::npos) {
    throw Error(ErrorKind::kUsage, {.what = key.full_name() + " has a NUL character",
                                    .where = source.at(raw.position),
                                    .remedy = "remove the character"});
  }
}

// Ignores case and accepts short names of data types, such as bf16.
std::string meant_word(const Key& key, const std::string& text) {
  static const std::map<std::string, std::string> kShortNames = {
      {"bf16", "bfloat16"}, {"fp16", "float16"}, {"half", "float16"}, {"fp32", "float32"}};
  const auto short_name = kShortNames.find(to_lower(text));
  const std::string meant = short_name == kShortNames.end() ? to_lower(text) : short_name->second;
  for (const std::string& word : key.words) {
    if (to_lower(word) == meant) return word;
  }
  return text;
}

RawValue with_meant_words(const Key& key, RawValue raw) {
  if (raw.type == RawValue::Type::kString) raw.string = meant_word(key, raw.string);
  if (raw.type == RawValue::Type::kList && key.kinds.front() == Kind::kStrings) {
    for (RawValue& element : raw.list) element = with_meant_words(key, std::move(element));
  }
  return raw;
}

// Throws unless the key accepts the value and its list elements. If a key accepts either a word
// such as "full" or a list, the list may hold any strings.
void check_value(const Key& key, const Value& value, const RawValue& raw, const Source& source) {
  if (raw.type == RawValue::Type::kList) {
    if (raw.list.empty() && !key.may_be_empty && key.kinds.front() == Kind::kString) {
      throw Error(ErrorKind::kUsage, {.what = key.full_name() + " is an empty list",
                                      .where = source.at(raw.position),
                                      .remedy = example(key)});
    }
    const bool words_hold = key.words.empty() || key.kinds.front() == Kind::kStrings;
    for (const RawValue& element : raw.list) {
      if (element.type == RawValue::Type::kString) {
        if (words_hold) check_string(key, element.string, element, source);
      } else if (element.type == RawValue::Type::kInteger) {
        check_number(key, static_cast<double>(element.integer), element, source);
      } else if (element.type == RawValue::Type::kNumber) {
        check_number(key, element.number, element, source);
      }
    }
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    check_string(key, *text, raw, source);
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    check_number(key, static_cast<double>(*integer), raw, source);
  } else if (const auto* number = std::get_if<double>(&value)) {
    check_number(key, *number, raw, source);
  }
}

void expand_paths(const Key& key, Value& value, const Source& source) {
  if (auto* list = std::get_if<std::vector<std::string>>(&value)) {
    for (std::string& path : *list) path = expand_path(path, source.folder, source.origin);
  } else if (auto* path = std::get_if<std::string>(&value)) {
    const bool is_step =
        std::all_of(path->begin(), path->end(), [](char c) { return c >= '0' && c <= '9'; });
    if (key.full_name() == "checkpoint.resume" && (*path == "auto" || *path == "none" || is_step)) {
      return;
    }
    if (key.full_name() == "data.tokenizer" && (*path == "auto" || *path == "bytes")) return;
    *path = expand_path(*path, source.folder, source.origin);
  }
}

}  // namespace

Value set_value(RunConfig& config, const Key& key, const RawValue& given, const Source& source) {
  const RawValue raw = with_meant_words(key, given);
  Value value;
  const RawValue* misfit = nullptr;
  if (!convert(raw, key.kinds, value, misfit)) throw wrong_type(key, raw, *misfit, source);
  check_value(key, value, raw, source);
  if (key.is_path) expand_paths(key, value, source);
  try {
    key.set(config, value);
  } catch (const Error& error) {
    throw error.at(source.origin);
  }
  config.origins[key.full_name()] = source.origin;
  return value;
}

}  // namespace sluice::detail
