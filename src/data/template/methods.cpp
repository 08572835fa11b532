#include "data/template/methods.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/format.h"
#include "data/template/access.h"
#include "data/template/letters.h"
#include "data/template/value_text.h"
#include "data/text_cut.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data::jinja {
namespace {

using Parameters = std::vector<std::string_view>;

std::optional<std::string> characters_of(const Bound& bound) {
  if (bound.is_none(0)) return std::nullopt;
  return bound.text(0);
}

Value strip(const std::string& text, const Bound& bound, Meter& meter) {
  const auto characters = characters_of(bound);
  return meter.text(std::string(stripped_right(stripped_left(text, characters), characters)));
}
Value strip_left(const std::string& text, const Bound& bound, Meter& meter) {
  return meter.text(std::string(stripped_left(text, characters_of(bound))));
}
Value strip_right(const std::string& text, const Bound& bound, Meter& meter) {
  return meter.text(std::string(stripped_right(text, characters_of(bound))));
}

// The part of a text between two character positions, as Python's methods find them.
struct Part {
  std::string_view text;
  std::int64_t begin = 0;  // in characters
  bool exists = true;      // false: begins behind the end of the text
};

Part part_of(const std::string& text, const Bound& bound, std::size_t first, Meter& meter) {
  if (bound.is_none(first) && bound.is_none(first + 1)) return {text};
  const std::int64_t size = length_of(text_value(text), meter);
  meter.spend(text.size());
  const auto place = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t at = bound.is_none(i) ? otherwise : bound.integer(i, otherwise);
    return std::max<std::int64_t>(at < 0 ? at + size : at, 0);
  };
  const std::int64_t begin = place(first, 0), end = std::min(place(first + 1, size), size);
  if (begin > end) return {{}, begin, false};
  std::size_t at = 0, from = 0;
  for (std::int64_t i = 0; i < end; ++i) {
    if (i == begin) from = at;
    next_codepoint(text, at);
  }
  if (begin == end) from = at;
  return {std::string_view(text).substr(from, at - from), begin};
}

bool begins(std::string_view text, std::string_view part) { return text.starts_with(part); }
bool ends(std::string_view text, std::string_view part) { return text.ends_with(part); }

template <bool (*fits)(std::string_view, std::string_view)>
Value has_affix(const std::string& text, const Bound& bound, Meter& meter) {
  const Part part = part_of(text, bound, 1, meter);
  const List* choices = list_in(bound.required(0));
  if (!choices) return part.exists && fits(part.text, bound.text(0));
  meter.spend(choices->items.size());
  for (const Value& choice : choices->items) {
    const std::string* affix = text_in(choice);
    if (!affix || choices->kind != ListKind::kTuple)
      fail("the argument is not a text or a tuple of texts");
    if (part.exists && fits(part.text, *affix)) return true;
  }
  return false;
}

std::int64_t place_of(const std::string& text, const Bound& bound, bool is_last, Meter& meter) {
  const Part part = part_of(text, bound, 1, meter);
  meter.spend(text.size() / 16);
  const std::size_t at = !part.exists ? std::string::npos
                         : is_last    ? part.text.rfind(bound.text(0))
                                      : part.text.find(bound.text(0));
  return at == std::string::npos ? -1 : part.begin + characters_in(part.text.substr(0, at));
}
Value find(const std::string& text, const Bound& bound, Meter& meter) {
  return place_of(text, bound, false, meter);
}
Value find_last(const std::string& text, const Bound& bound, Meter& meter) {
  return place_of(text, bound, true, meter);
}
Value index(const std::string& text, const Bound& bound, Meter& meter) {
  const std::int64_t at = place_of(text, bound, false, meter);
  if (at < 0) fail("the text of 'index' is not found");
  return at;
}
Value index_last(const std::string& text, const Bound& bound, Meter& meter) {
  const std::int64_t at = place_of(text, bound, true, meter);
  if (at < 0) fail("the text of 'rindex' is not found");
  return at;
}

Value count(const std::string& text, const Bound& bound, Meter& meter) {
  const std::string& piece = bound.text(0);
  const Part part = part_of(text, bound, 1, meter);
  meter.spend(text.size() / 4);
  if (!part.exists) return std::int64_t{0};
  if (piece.empty()) return characters_in(part.text) + 1;
  std::int64_t found = 0;
  for (std::size_t at = part.text.find(piece); at != std::string_view::npos;
       at = part.text.find(piece, at + piece.size()))
    ++found;
  return found;
}

std::int64_t limit_of(const Bound& bound, std::size_t i) {
  const std::int64_t limit = bound.integer(i, -1);
  return limit < 0 ? std::numeric_limits<std::int64_t>::max() : limit;
}

Value texts(std::vector<std::string> parts, Meter& meter) {
  std::vector<Value> values;
  for (std::string& part : parts) values.push_back(meter.text(std::move(part)));
  return list_value(std::move(values));
}

std::vector<std::string> words_of(std::string_view text, std::int64_t limit, bool is_last) {
  std::vector<std::string> words;
  const auto strip = is_last ? stripped_right : stripped_left;
  for (text = strip(text, {}); !text.empty(); text = strip(text, {})) {
    if (limit-- == 0) {
      words.emplace_back(text);
      break;
    }
    std::size_t size = 0;
    while (size < text.size()) {
      if (is_last ? trailing_space(text.substr(0, text.size() - size))
                  : leading_space(text.substr(size)))
        break;
      size = is_last ? text.size() - previous_character(text, text.size() - size)
                     : size + utf8_length(text[size]);
    }
    words.emplace_back(is_last ? text.substr(text.size() - size) : text.substr(0, size));
    is_last ? text.remove_suffix(size) : text.remove_prefix(size);
  }
  return words;
}

std::vector<std::string> parts_of(std::string_view text, std::string_view separator,
                                  std::int64_t limit, bool is_last) {
  std::vector<std::string> parts;
  if (separator.empty()) fail("the separator of 'split' is empty");
  for (; limit > 0; --limit) {
    const std::size_t at = is_last ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    const std::size_t after = at + separator.size();
    parts.emplace_back(is_last ? text.substr(after) : text.substr(0, at));
    is_last ? text.remove_suffix(text.size() - at) : text.remove_prefix(after);
  }
  parts.emplace_back(text);
  return parts;
}

template <bool is_last>
Value split(const std::string& text, const Bound& bound, Meter& meter) {
  const std::int64_t limit = limit_of(bound, 1);
  meter.spend(text.size());
  std::vector<std::string> parts = bound.is_none(0) ? words_of(text, limit, is_last)
                                                    : parts_of(text, bound.text(0), limit, is_last);
  if (is_last) std::reverse(parts.begin(), parts.end());
  return texts(std::move(parts), meter);
}

Value split_lines(const std::string& text, const Bound& bound, Meter& meter) {
  const bool keeps = bound.flag(0, false);
  std::vector<std::string> lines;
  std::size_t begin = 0;
  meter.spend(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = next_codepoint(text, at);
    const bool is_end = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                        c == 0x2028 || c == 0x2029;
    if (!is_end) continue;
    if (c == U'\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keeps ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return texts(std::move(lines), meter);
}

Value replace(const std::string& text, const Bound& bound, Meter& meter) {
  const std::string &from = bound.text(0), &to = bound.text(1);
  std::int64_t left = limit_of(bound, 2);
  std::string made;
  std::size_t at = 0;
  meter.spend(text.size());
  const auto grow = [&](std::size_t bytes) {
    if (made.size() + bytes > kMaxOutputBytes) meter.require_size(made.size() + bytes);
    meter.spend(bytes / 4 + 1);
  };
  while (left > 0 && at <= text.size()) {
    const std::size_t found = text.find(from, at);
    if (found == std::string::npos) break;
    grow(found - at + to.size());
    made.append(text, at, found - at).append(to);
    at = found + from.size();
    --left;
    if (!from.empty()) continue;
    if (at == text.size()) return text_value(std::move(made));
    const std::size_t size = utf8_length(text[at]);
    made.append(text, at, size);
    at += size;
  }
  grow(text.size() - at);
  return text_value(made.append(text, at));
}

Value join_texts(const std::string& text, const Bound& bound, Meter& meter) {
  std::string made;
  bool is_first = true;
  for (const Value& item : items_of(bound.required(0), meter)) {
    const std::string* part = text_in(item);
    if (!part) fail("'join' takes texts only");
    meter.require_size(made.size() + text.size() + part->size() > kMaxOutputBytes
                           ? kMaxOutputBytes + 1
                           : text.size() + part->size());
    made += is_first ? *part : text + *part;
    is_first = false;
  }
  return text_value(std::move(made));
}

Value lower_case(const std::string& text, const Bound&, Meter& meter) {
  return meter.text(lower_text(text));
}
Value upper_case(const std::string& text, const Bound&, Meter& meter) {
  return meter.text(upper_text(text));
}
Value title_case(const std::string& text, const Bound&, Meter& meter) {
  return meter.text(title_text(text));
}
Value capitalize(const std::string& text, const Bound&, Meter& meter) {
  return meter.text(capital_text(text));
}
Value remove_prefix(const std::string& text, const Bound& bound, Meter& meter) {
  return meter.text(text.starts_with(bound.text(0)) ? text.substr(bound.text(0).size()) : text);
}
Value remove_suffix(const std::string& text, const Bound& bound, Meter& meter) {
  return meter.text(
      text.ends_with(bound.text(0)) ? text.substr(0, text.size() - bound.text(0).size()) : text);
}
Value is_digits(const std::string& text, const Bound&, Meter& meter) {
  meter.spend(text.size() / 16);
  const bool is_ascii = std::all_of(text.begin(), text.end(),
                                    [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (!is_ascii) fail("'isdigit' of text with characters beyond ASCII is not supported");
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct TextMethod {
  std::string_view name;
  Parameters parameters;
  Value (*call)(const std::string&, const Bound&, Meter&);
};

const std::vector<TextMethod>& text_methods() {
  static const std::vector<TextMethod> methods = {
      {"strip", {"chars"}, strip},
      {"lstrip", {"chars"}, strip_left},
      {"rstrip", {"chars"}, strip_right},
      {"startswith", {"prefix", "start", "end"}, has_affix<begins>},
      {"endswith", {"suffix", "start", "end"}, has_affix<ends>},
      {"find", {"sub", "start", "end"}, find},
      {"rfind", {"sub", "start", "end"}, find_last},
      {"index", {"sub", "start", "end"}, index},
      {"rindex", {"sub", "start", "end"}, index_last},
      {"count", {"sub", "start", "end"}, count},
      {"split", {"sep", "maxsplit"}, split<false>},
      {"rsplit", {"sep", "maxsplit"}, split<true>},
      {"splitlines", {"keepends"}, split_lines},
      {"replace", {"old", "new", "count"}, replace},
      {"join", {"iterable"}, join_texts},
      {"lower", {}, lower_case},
      {"upper", {}, upper_case},
      {"title", {}, title_case},
      {"capitalize", {}, capitalize},
      {"removeprefix", {"prefix"}, remove_prefix},
      {"removesuffix", {"suffix"}, remove_suffix},
      {"isdigit", {}, is_digits}};
  return methods;
}

Value call_on_dict(const Dict& dict, const std::string& name, const Arguments& arguments,
                   Meter& meter) {
  meter.spend(dict.items.size());
  if (name == "get") {
    static const Parameters parameters = {"key", "default"};
    const Bound bound(arguments, parameters, "get");
    const std::string* key = text_in(bound.required(0));
    const Value* found = key ? dict.find(*key) : nullptr;
    if (found) return *found;
    return bound.has(1) ? bound.required(1) : Value(None{});
  }
  static const Parameters none;
  const Bound bound(arguments, none, name);
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items) {
    if (name == "keys") {
      items.push_back(text_value(key));
    } else if (name == "values") {
      items.push_back(value);
    } else {
      items.push_back(list_value({text_value(key), value}, ListKind::kTuple));
    }
  }
  return list_value(std::move(items), ListKind::kView);
}

Value call_on_list(const List& list, const std::string& name, const Arguments& arguments,
                   Meter& meter) {
  static const Parameters parameters = {"value"};
  const Bound bound(arguments, parameters, name);
  std::int64_t found = 0;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (!equal(list.items[i], bound.required(0), meter)) continue;
    if (name == "index") return static_cast<std::int64_t>(i);
    ++found;
  }
  if (name == "index") fail("the value of 'index' is not in the list");
  return found;
}

Value call_on_loop(Loop& loop, const std::string& name, const Arguments& arguments, Meter& meter) {
  if (name == "cycle") {
    if (arguments.values.empty()) fail("'loop.cycle' takes at least one value");
    return arguments.values[loop.index % arguments.values.size()];
  }
  const Value seen = list_value(arguments.values, ListKind::kTuple);
  if (loop.last_seen && equal(*loop.last_seen, seen, meter)) return false;
  loop.last_seen = seen;
  return true;
}

bool is_one_of(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<std::string> method_names() {
  std::vector<std::string> names = {"get", "items", "keys", "values", "cycle", "changed"};
  for (const TextMethod& method : text_methods()) names.emplace_back(method.name);
  return names;
}

Value call_method(const Value& object, const std::string& name, const Arguments& arguments,
                  Meter& meter) {
  meter.spend(1);
  if (const Undefined* undefined = std::get_if<Undefined>(&object))
    fail(formatted("{}, so '{}()' has no value", undefined->what, name));
  if (const std::string* text = text_in(object)) {
    for (const TextMethod& method : text_methods()) {
      if (method.name != name) continue;
      const Value made =
          method.call(*text, Bound(arguments, method.parameters, method.name), meter);
      if (std::get<Text>(object).is_safe && (text_in(made) || list_in(made)))
        fail(formatted("'{}()' of a text that the filter 'safe' marked is not supported", name),
             "call it before 'safe'");
      return made;
    }
  }
  if (const Dict* dict = dict_in(object);
      dict && is_one_of(name, {"get", "items", "keys", "values"}))
    return call_on_dict(*dict, name, arguments, meter);
  const List* list = list_in(object);
  if (list && list->kind <= ListKind::kRange && is_one_of(name, {"index", "count"}))
    return call_on_list(*list, name, arguments, meter);
  if (Loop* const* loop = std::get_if<Loop*>(&object);
      loop && is_one_of(name, {"cycle", "changed"}))
    return call_on_loop(**loop, name, arguments, meter);
  fail(formatted("a value of type {} has no method '{}'", type_name(object), name));
}

}  // namespace sluice::data::jinja
