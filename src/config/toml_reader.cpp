#include "config/toml_reader.h"

// Without this definition, toml++ aborts on some invalid text.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>
#include <algorithm>

#include "base/file.h"
#include "base/format.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr int kMaxKeyParts = 16;

Position position_of(const toml::source_region& source) {
  return {source.begin.line, source.begin.column};
}

Error error_at(const std::string& what, const std::string& file, Position position,
               const std::string& remedy) {
  return Error(ErrorKind::kUsage,
               {.what = what,
                .where = formatted("{}:{}:{}", file, position.line, position.column),
                .remedy = remedy});
}

// toml++ destroys nested tables recursively, so we bound their depth before parsing: 256 levels,
// each with a key of up to kMaxKeyParts parts.
void refuse_long_keys(std::string_view text, const std::string& file) {
  Position here{1, 1};
  int dots = 0;
  const auto advance = [&](std::size_t& i) {
    here = text[i] == '\n' ? Position{here.line + 1, 1} : Position{here.line, here.column + 1};
    ++i;
  };
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::string_view rest = text.substr(i);
      const bool multiline = rest.size() >= 3 && rest[1] == c && rest[2] == c;
      const std::string_view quote = rest.substr(0, multiline ? 3 : 1);
      for (std::size_t k = 0; k < quote.size(); ++k) advance(i);
      while (i < text.size() && text.substr(i, quote.size()) != quote) {
        if (!multiline && text[i] == '\n') break;
        if (c == '"' && text[i] == '\\' && i + 1 < text.size()) advance(i);
        advance(i);
      }
      for (std::size_t k = 0; k < quote.size() && i < text.size(); ++k) advance(i);
      continue;
    }
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') advance(i);
      continue;
    }
    if (c == '.') {
      if (++dots >= kMaxKeyParts) {
        throw error_at(formatted("the key has more than {} parts", kMaxKeyParts), file, here,
                       "write [section], then one key = value a line");
      }
    } else if (c == '\n' || c == '=' || c == ',' || c == '{' || c == '[' || c == ']') {
      dots = 0;
    }
    advance(i);
  }
}

RawValue to_raw(const toml::node& node) {
  RawValue raw;
  raw.position = position_of(node.source());
  using Type = RawValue::Type;
  if (const auto* boolean = node.as_boolean()) {
    raw.type = Type::kBool;
    raw.boolean = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    raw.type = Type::kInteger;
    raw.integer = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    raw.type = Type::kNumber;
    raw.number = number->get();
  } else if (const auto* string = node.as_string()) {
    raw.type = Type::kString;
    raw.string = string->get();
  } else if (const auto* list = node.as_array()) {
    raw.type = Type::kList;
    for (const toml::node& element : *list) raw.list.push_back(to_raw(element));
  } else if (const auto* table = node.as_table()) {
    raw.type = Type::kTable;
    for (const auto& [key, value] : *table) {
      raw.keys.emplace_back(key.str());
      raw.list.push_back(to_raw(value));
    }
  } else {
    raw.other = "a date or time";
  }
  return raw;
}

std::string reason(const toml::parse_error& error) {
  std::string text(error.description());
  const std::string prefix = "Error while parsing ";
  if (text.starts_with(prefix)) text = text.substr(prefix.size());
  return "not TOML: " + text;
}

std::string remedy_of(const std::string& reason) {
  static const std::vector<std::pair<std::string_view, std::string_view>> kRemedies = {
      {"redefine", "keep one of the two"},
      {"utf-8", "save the file as UTF-8"},
      {"table header", "write [section] alone on its line"},
      {"string", "close the string with the quote it started with; \\ in \"...\" is written \\\\"},
      {"integer", "numbers are written 10, 0.1 or 3e-4"},
      {"floating-point", "numbers are written 10, 0.1 or 3e-4"},
      {"boolean", "write true or false; text needs quotes: key = \"text\""},
      {"date", "text needs quotes: key = \"text\""},
      {"time", "text needs quotes: key = \"text\""},
      {"array", "separate values by commas and close the list: [1, 2]"},
      {"inline table", "write [section], then one key = value a line"},
      {"key", "write one key = value a line; text needs quotes: key = \"text\""},
      {"value", "text needs quotes: key = \"text\""}};
  for (const auto& [word, remedy] : kRemedies) {
    if (reason.find(word) != std::string::npos) return std::string(remedy);
  }
  return "write [section], then one key = value a line";
}

toml::table parse(std::string_view text, const std::string& file) {
  refuse_long_keys(text, file);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const std::string what = reason(error);
    throw error_at(what, file, position_of(error.source()), remedy_of(what));
  }
}

}  // namespace

std::string read_config_file(const std::string& file) {
  return read_text_or_pipe(file, kMaxTomlBytes, ErrorKind::kUsage);
}

std::vector<RawKey> read_toml(std::string_view text, const std::string& file) {
  const toml::table root = parse(text, file);
  std::vector<RawKey> keys;
  for (const auto& [section, node] : root) {
    const std::string name(section.str());
    const toml::table* table = node.as_table();
    if (!table || table->empty()) {
      keys.push_back({name, "", to_raw(node), position_of(section.source())});
      continue;
    }
    for (const auto& [key, value] : *table) {
      keys.push_back({name, std::string(key.str()), to_raw(value), position_of(key.source())});
    }
  }
  std::stable_sort(keys.begin(), keys.end(), [](const RawKey& a, const RawKey& b) {
    return std::pair(a.position.line, a.position.column) <
           std::pair(b.position.line, b.position.column);
  });
  return keys;
}

RawValue read_toml_value(const std::string& text) {
  RawValue word;
  word.type = RawValue::Type::kString;
  word.string = text;
  // A line break could start another key, so such text is a string.
  if (text.size() > kMaxTomlBytes || text.find_first_of("\r\n") != std::string::npos) return word;
  try {
    const toml::table table = parse("value = " + text, "");
    const toml::node* node = table.get("value");
    if (!node || table.size() != 1) return word;
    RawValue raw = to_raw(*node);
    const auto clear = [](auto&& self, RawValue& at) -> void {
      at.position = {};
      for (RawValue& element : at.list) self(self, element);
    };
    clear(clear, raw);
    return raw;
  } catch (const Error&) {
    return word;
  }
}

}  // namespace sluice::detail
