#include "data/template/value_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data::jinja {
namespace {

void append_hex(std::string& text, char32_t c, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    text += "0123456789abcdef"[c >> shift & 15];
}

// As in Python's str.isprintable().
bool is_printable(char32_t c) {
  static const CodepointBits others(joined([] {
    CodepointRanges ranges = *property_ranges("C");
    const CodepointRanges spaces = *property_ranges("Z");
    ranges.insert(ranges.end(), spaces.begin(), spaces.end());
    return ranges;
  }()));
  return c == U' ' || (c >= 0x21 && c < 0x7F) || !others.has(c);
}

std::string quoted(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string shown(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_codepoint(text, at);
    if (c == static_cast<unsigned char>(quote) || c == U'\\') {
      shown += '\\';
      shown += static_cast<char>(c);
    } else if (c == U'\n' || c == U'\r' || c == U'\t') {
      shown += c == U'\n' ? "\\n" : c == U'\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      shown.append(text, begin, at - begin);
    } else {
      shown += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
      append_hex(shown, c, c < 0x100 ? 2 : c < 0x10000 ? 4 : 8);
    }
  }
  return shown + quote;
}

[[noreturn]] void refuse_text(const Value& value) {
  fail("the text of a " + type_name(value) + " is not supported", "add the filter 'list'");
}

class Shown {
 public:
  explicit Shown(Meter& meter) : meter_(meter) {}

  void append(const Value& value) {
    meter_.spend(1);
    if (const std::string* string = text_in(value)) {
      add(quoted(*string));
    } else if (const List* list = list_in(value)) {
      append_list(*list);
    } else if (const Dict* dict = dict_in(value)) {
      add("{");
      bool is_first = true;
      for (const auto& [key, item] : dict->items) {
        add((is_first ? "" : ", ") + quoted(key) + ": ");
        append(item);
        is_first = false;
      }
      add("}");
    } else {
      if (is<Undefined>(value)) return add("Undefined");
      add(shown_text(value, meter_));
    }
  }
  std::string text;

 private:
  void append_list(const List& list) {
    if (list.kind > ListKind::kTuple) refuse_text(list_value({}, list.kind));
    const bool is_tuple = list.kind == ListKind::kTuple;
    add(is_tuple ? "(" : "[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) add(", ");
      append(list.items[i]);
    }
    if (is_tuple && list.items.size() == 1) add(",");
    add(is_tuple ? ")" : "]");
  }
  void add(const std::string& part) {
    meter_.require_size(part.size());
    text += part;
    if (text.size() > kMaxOutputBytes) meter_.require_size(text.size());
  }

  Meter& meter_;
};

class JsonText {
 public:
  JsonText(const JsonLayout& layout, Meter& meter) : layout_(layout), meter_(meter) {}

  void append(const Value& value, std::size_t depth) {
    meter_.spend(1);
    if (const std::string* string = text_in(value)) {
      append_string(*string);
    } else if (const List* list = list_in(value)) {
      if (list->kind > ListKind::kTuple) refuse(value);
      append_items(list->items.size(), depth, "[]",
                   [&](std::size_t i) { append(list->items[i], depth + 1); });
    } else if (const Dict* dict = dict_in(value)) {
      append_dict(*dict, depth);
    } else if (is<None>(value)) {
      add("null");
    } else if (const bool* flag = std::get_if<bool>(&value)) {
      add(*flag ? "true" : "false");
    } else if (const double* real = std::get_if<double>(&value)) {
      add(std::isnan(*real)   ? "NaN"
          : std::isinf(*real) ? (*real < 0 ? "-Infinity" : "Infinity")
                              : real_text(*real));
    } else if (const std::int64_t* integer = std::get_if<std::int64_t>(&value)) {
      add(std::to_string(*integer));
    } else {
      refuse(value);
    }
  }
  std::string text;

 private:
  [[noreturn]] static void refuse(const Value& value) {
    fail("JSON cannot hold a value of type " + type_name(value));
  }

  template <typename Append>
  void append_items(std::size_t size, std::size_t depth, const char* brackets, Append&& item) {
    add({brackets[0]});
    for (std::size_t i = 0; i < size; ++i) {
      if (i > 0) add(layout_.between);
      append_line(depth + 1);
      item(i);
    }
    if (size > 0) append_line(depth);
    add({brackets[1]});
  }

  void append_dict(const Dict& dict, std::size_t depth) {
    std::vector<std::size_t> places;
    if (layout_.sorted) {
      for (const auto& [key, place] : dict.places) places.push_back(place);
    }
    append_items(dict.items.size(), depth, "{}", [&](std::size_t i) {
      const auto& [key, item] = dict.items[layout_.sorted ? places[i] : i];
      append_string(key);
      add(layout_.colon);
      append(item, depth + 1);
    });
  }

  void append_line(std::size_t depth) {
    if (!layout_.indent) return;
    add("\n");
    for (std::size_t i = 0; i < depth; ++i) add(*layout_.indent);
  }

  void append_string(const std::string& string) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kNames = "\"\\nrtfb";
    std::string shown = "\"";
    for (std::size_t at = 0; at < string.size();) {
      const std::size_t begin = at;
      const char32_t c = next_codepoint(string, at);
      const std::size_t name =
          c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
      if (name != std::string_view::npos) {
        shown += {'\\', kNames[name]};
      } else if (c < 0x20 || (layout_.ascii && c > 0x7E && c < 0x10000)) {
        shown += "\\u";
        append_hex(shown, c, 4);
      } else if (layout_.ascii && c >= 0x10000) {
        shown += "\\u";
        append_hex(shown, 0xD800 + ((c - 0x10000) >> 10), 4);
        shown += "\\u";
        append_hex(shown, 0xDC00 + ((c - 0x10000) & 0x3FF), 4);
      } else {
        shown.append(string, begin, at - begin);
      }
    }
    add(shown + "\"");
  }

  void add(std::string_view part) {
    meter_.require_size(part.size());
    text += part;
    if (text.size() > kMaxOutputBytes) meter_.require_size(text.size());
  }
  void add(std::initializer_list<char> part) { add(std::string_view(part.begin(), part.size())); }

  const JsonLayout& layout_;
  Meter& meter_;
};

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const double size = std::fabs(value);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value,
                    is_plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (is_plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string shown_text(const Value& value, Meter& meter) {
  if (is<Undefined>(value)) return {};
  if (is<None>(value)) return "None";
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&value))
    return std::to_string(*integer);
  if (const double* real = std::get_if<double>(&value)) return real_text(*real);
  if (const std::string* text = text_in(value)) return *text;
  if (!list_in(value) && !dict_in(value)) refuse_text(value);
  Shown shown(meter);
  shown.append(value);
  return std::move(shown.text);
}

std::string json_text(const Value& value, const JsonLayout& layout, Meter& meter) {
  JsonText json(layout, meter);
  json.append(value, 0);
  return std::move(json.text);
}

}  // namespace sluice::data::jinja
